"""The best possible return, where it is known."""

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.finite import finite_problem
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.exact.values import optimal_return


def best_return(environment: Task) -> float | None:
    """The largest expected return of any policy, or None where it cannot be computed.

    Bit flipping, which has too many states for tables, in closed form: a goal with d ones takes d actions and so gives
    the horizon minus d, half the bits on average; the start itself takes two.
    """
    if isinstance(environment, BitFlipping):
        if environment.bits == 1:
            # One action only: there is no way back to the start.
            return 0.5 * (environment.horizon - 1)
        return environment.horizon - environment.bits / 2 - 2 * 2.0**-environment.bits
    if not isinstance(environment, Environment):
        return None
    try:
        return optimal_return(finite_problem(environment))
    except HindsightError:
        return None
