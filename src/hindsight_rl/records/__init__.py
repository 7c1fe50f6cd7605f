"""What a job leaves on disk: checkpoints, tables of evaluations, and the versions that made them."""
