"""What is likely wrong with a run, read off what it recorded."""
