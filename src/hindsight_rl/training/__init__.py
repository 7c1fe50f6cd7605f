"""Training: settings, the compiled loop between evaluations, and greedy evaluation."""
