"""Goal environments written in JAX, so that whole episodes compile."""
