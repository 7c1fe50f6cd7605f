"""Policy and value networks as the paper has them."""
