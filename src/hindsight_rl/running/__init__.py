"""Jobs as people run them, from the command line and from Python: progress, stopping, and what a run folder shows."""
