"""Statistics and pictures of finished jobs; statistics never plot and plots never compute."""
