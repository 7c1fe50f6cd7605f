"""The methods by name, each a row of a table. Imports nothing heavy, so that help texts appear at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hindsight_rl.core.errors import unknown


@dataclass(frozen=True)
class Method:
    """What sets a method apart."""

    summary: str
    hindsight: bool
    """Learns about goals that were reached, not about the pursued one alone."""
    ratios: bool = False
    """Corrects for the pursued goal with likelihood ratios."""
    baseline: bool = False
    """Subtracts a learned value."""
    replay: bool = False
    """Learns action values from a replay buffer rather than a policy from its gradient."""


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "gcpg": Method("Goal-conditional policy gradient: learns about the pursued goal alone (Thm 3.1).", False),
        "gcpg+b": Method("GCPG with a learned value as its baseline (Thm 3.2).", False, baseline=True),
        "hpg": Method(
            "Hindsight policy gradient: weighted per-decision ratios, all goals reached (Thm 5.2).", True, True
        ),
        "hpg+b": Method("HPG with a weighted baseline on the active goals (Thm 5.2 and C.1).", True, True, True),
        "hpg-no-ratios": Method("The paper's ablation: hindsight without the likelihood ratios (biased).", True),
        "dqn": Method("Deep Q-network with a replay buffer (appendix E.3.7).", False, replay=True),
        "dqn+her": Method("DQN with hindsight experience replay: goals reached, relabelled.", True, replay=True),
    }
)


def find_method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
