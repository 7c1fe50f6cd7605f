"""Optimal constant baselines (appendices A and B): the constants that minimise the variance, parameter by parameter."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from hindsight_rl.estimators.checks import require_distribution, require_shapes


def optimal_constant_baseline(
    estimates: Float[Array, "sample parameter"],
    scores: Float[Array, "sample parameter"],
    probabilities: Float[Array, " sample"] | None = None,
) -> Float[Array, " parameter"]:
    """Theorems A.2 and B.2: b_j = E[f_j h_j] / E[h_j^2], which minimises the variance of f_j - b_j h_j.

    For Theorem A.2, f and h are the gradients of sum c log p with the coefficients of Theorem 3.1 and with ones; for
    Theorem B.2, with those of Theorem 4.2 and of Lemma 4.1 with b = 1. Each sample is one episode. `probabilities`
    are those of the samples; without them all count the same. Where h is always zero the baseline is zero.
    """
    require_shapes(estimates=(estimates, "sample parameter"), scores=(scores, "sample parameter"))
    if probabilities is None:
        probabilities = jnp.full(estimates.shape[0], 1 / estimates.shape[0])
    require_shapes(estimates=(estimates, "sample parameter"), probabilities=(probabilities, "sample"))
    require_distribution(probabilities=probabilities)
    products = probabilities @ (estimates * scores)
    squares = probabilities @ scores**2
    return jnp.where(squares > 0, products / jnp.where(squares > 0, squares, 1), 0)
