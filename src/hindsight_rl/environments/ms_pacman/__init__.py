"""Ms. Pac-man: the game, its frames and its cells."""
