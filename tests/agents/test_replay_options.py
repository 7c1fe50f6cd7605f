"""Options of the replay agents that cannot work are refused with a sentence that says why."""

from typing import Any

import pytest

from hindsight_rl.agents.replay_options import LARGEST_CAPACITY, HEROptions, check_options
from hindsight_rl.core.errors import HindsightError


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"relabelling": "finale"}, r"no relabelling 'finale'\. Did you mean 'final'\? Known: final, future, ep"),
        (
            {"replay_capacity": 15},
            r"at least one episode, which here has up to 16 transitions, but its capacity is 15\.$",
        ),
        (
            {"replay_capacity": 100},
            r"minibatch of 128 transitions is more than .* can ever hold, as its capacity is 100\.$",
        ),
        (
            {"replay_capacity": LARGEST_CAPACITY + 1},
            r"capacity can be at most 1000000000 transitions, not 1000000001\.$",
        ),
        ({"replay_capacity": 1e6}, r"replay_capacity must be a whole number of at least 1, not 1000000\.0\.$"),
        ({"discount": 0.0}, r"discount must be a number above 0 and at most 1, not 0\.0\.$"),
        ({"discount": 1.01}, r"discount must be a number above 0 and at most 1, not 1\.01\.$"),
        ({"discount": float("nan")}, r"discount must be a number above 0 and at most 1, not nan\.$"),
        ({"epsilon": -0.1}, r"epsilon must be a number from 0 to 1, not -0\.1\.$"),
        ({"epsilon": 1.5}, r"epsilon must be a number from 0 to 1, not 1\.5\.$"),
        ({"relabelled_goals": 4}, r"one final goal, so with the strategy 'final' relabelled_goals must be 1, not 4\.$"),
        ({"redraw_goals": True}, r"strategy 'final' there are no goals to redraw: choose 'future' or 'episode'\.$"),
        ({"relabelled_goals": 0}, r"relabelled_goals must be a whole number of at least 1, not 0\.$"),
        ({"gradient_steps": 0}, r"gradient_steps must be a whole number of at least 1, not 0\.$"),
        ({"minibatch_size": True}, r"minibatch_size must be a whole number of at least 1, not True\.$"),
        ({"episode_limit": 0}, r"episode_limit must be a whole number of at least 1, not 0\.$"),
    ],
)
def test_options_that_cannot_work_are_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HindsightError, match=sentence):
        check_options(HEROptions(**changed), horizon=9)


@pytest.mark.parametrize("changed", [{"discount": 1.0}, {"epsilon": 0.0}, {"epsilon": 1.0}, {"replay_capacity": 128}])
def test_options_at_the_edge_are_fine(changed: dict[str, Any]) -> None:
    check_options(HEROptions(**changed), horizon=9)
