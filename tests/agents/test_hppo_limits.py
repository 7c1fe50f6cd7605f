"""Options of hindsight PPO that no program can bear are refused in a sentence, before anything is traced."""

from typing import Any

import jax
import pytest
from small_results import refusal

from hindsight_rl.agents import hppo
from hindsight_rl.agents.episode_buffer import empty_buffer
from hindsight_rl.agents.hppo import hppo_agent
from hindsight_rl.agents.hppo_options import MOST_COUNTED, HPPOOptions, PPOOptions
from hindsight_rl.environments.bit_flipping import BitFlipping

TASK = BitFlipping(4)
"""Five states; so a step has at most 128 decisions, unless it is given how many."""


@pytest.mark.parametrize("options", [HPPOOptions, PPOOptions])
@pytest.mark.parametrize(
    "name", ["gradient_steps", "steps_per_draw", "pairs", "minibatch", "goals_together", "kept_episodes"]
)
@pytest.mark.parametrize("value", [MOST_COUNTED + 1, 10**12, 10**20])
def test_what_32_bits_cannot_count_is_refused(options: type[PPOOptions], name: str, value: int) -> None:
    assert refusal(lambda: options(**{name: value})) == f"{name} must be at most 2147483647, not {value}."


@pytest.mark.parametrize("value", [25, 10**6])
def test_waves_finer_than_numbers_are_refused(value: int) -> None:
    """Half a wavelength more at each: beyond 24 halvings there is nothing but rounding, and then infinity."""
    assert refusal(lambda: HPPOOptions(waves=value)) == f"waves must be at most 24, not {value}."
    HPPOOptions(waves=24)


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"goals_together": 257}, "goals_together must be at most the pairs (256) and the minibatch (128), not 257."),
        ({"goals_together": 129}, "goals_together must be at most the pairs (256) and the minibatch (128), not 129."),
        (
            {"goals_together": 9, "pairs": 8, "minibatch": 10},
            "goals_together must be at most the pairs (8) and the minibatch (10), not 9.",
        ),
        (
            {"pairs": 10**9},
            "pairs must be at most 107374182 where episodes have 4 actions, not 1000000000: compiled programs count no "
            "further.",
        ),
    ],
)
def test_goals_and_pairs_that_cannot_be_had_are_refused(chosen: dict[str, Any], sentence: str) -> None:
    assert refusal(lambda: hppo_agent(TASK, HPPOOptions(**chosen))) == sentence


def test_as_many_goals_as_there_are_pairs_can_be_looked_at() -> None:
    agent = hppo_agent(TASK, HPPOOptions(goals_together=128, kept_episodes=8))
    assert "each state looked at under 128 goals together" in agent.remark
    jax.eval_shape(agent.init, jax.random.key(0))


@pytest.mark.parametrize(("most_bytes", "way"), [(5e8, "keep more of them"), (640.0, "lower the batch size")])
def test_a_batch_that_cannot_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch, most_bytes: float, way: str) -> None:
    """Each episode shows 80 bytes: five states of four numbers."""
    monkeypatch.setattr(hppo, "MOST_BYTES", most_bytes)
    agent = hppo_agent(TASK, HPPOOptions(kept_episodes=8 if most_bytes == 5e8 else 9))
    state, episodes = jax.eval_shape(agent.init, jax.random.key(0)), empty_buffer(TASK, 9).episodes
    said = refusal(lambda: agent.update(state, episodes, {}, jax.random.key(0)))
    assert said == f"There is room for 8 kept episodes, but a batch has 9: {way}."
