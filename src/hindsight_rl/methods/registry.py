"""The methods by name. A new one is one file and one line here; one of a user's own needs no line at all."""

from collections.abc import Mapping
from types import MappingProxyType

from hindsight_rl.core.errors import unknown
from hindsight_rl.core.options import names_of
from hindsight_rl.core.plugins import installed, is_reference, load_installed, load_object, refuse_path, require_free
from hindsight_rl.core.run import RunSettings
from hindsight_rl.methods import policy_gradients, ppo, replay
from hindsight_rl.methods.interface import Method, check_method

GROUP = "hindsight.methods"
"""The entry points with which an installed package announces methods."""

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "gcpg": policy_gradients.GCPG,
        "gcpg+b": policy_gradients.GCPG_BASELINE,
        "hpg": policy_gradients.HPG,
        "hpg+b": policy_gradients.HPG_BASELINE,
        "hpg-no-ratios": policy_gradients.HPG_NO_RATIOS,
        "policy-gradient": policy_gradients.POLICY_GRADIENT,
        "hppo": ppo.HPPO,
        "ppo": ppo.PPO,
        "dqn": replay.DQN,
        "dqn+her": replay.DQN_HER,
    }
)


def find_method(name: str) -> Method:
    """The method of that name: one of ours, an installed one, or `module:name`."""
    if name in METHODS:
        return METHODS[name]
    if is_reference(name):
        found = load_object(name, "method")
    elif name in installed(GROUP):
        found = load_installed(GROUP, name, "method")
    else:
        refuse_path(name, "method")
        raise unknown("method", name, [*METHODS, *installed(GROUP)])
    return check_method(name, found, ("method", *names_of(RunSettings)))


def all_methods() -> dict[str, Method]:
    """Ours, and those of installed packages."""
    require_free(installed(GROUP), METHODS, "method")
    return {**METHODS, **{name: find_method(name) for name in installed(GROUP)}}
