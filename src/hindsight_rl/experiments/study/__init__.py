"""Studies: which cells there are, how each is searched and run, and running them."""
