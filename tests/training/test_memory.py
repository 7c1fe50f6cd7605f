"""What cannot fit is refused before it is compiled, and what would not fit before it runs."""

from functools import partial

import jax
import pytest
from reference.hosted_bits import hosted_bits
from small_jobs import ENVIRONMENT, small_settings
from small_results import refusal

from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.registry import specify
from hindsight_rl.training import compiled_loop, memory
from hindsight_rl.training.loop import runs_of, training
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import make_settings

pytestmark = pytest.mark.usefixtures("compiled_programs")


@pytest.fixture
def program() -> Program:
    return make_program(specify(ENVIRONMENT).task, small_settings())


def limited(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(memory, "memory", lambda: size)


@pytest.mark.parametrize("size", [20_000, 60_000])
def test_a_step_that_needs_too_much_is_known_before_anything_is_compiled(
    program: Program, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    wide = make_program(specify(ENVIRONMENT).task, small_settings(batch_size=1000))
    limited(monkeypatch, size)
    said = refusal(lambda: compiled_loop.require_memory_to_compile(wide, runs_of(small_settings()), 1000))
    assert said.startswith("This needs at least 0.0 GB of memory")
    assert said.endswith("lower the batch size, the evaluation episodes, the horizon or the hidden layers.")
    monkeypatch.undo()
    compiled_loop.require_memory_to_compile(program, runs_of(small_settings()), 8)


def test_a_program_that_needs_too_much_is_not_run(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small_settings()
    held = sum(memory.needed_bytes(program, settings, 1).values())
    limited(monkeypatch, held)  # enough for what must be there, not for what the compiled program takes besides
    said = refusal(lambda: next(iter(training(program, settings))))
    assert said.startswith("This needs 0.0 GB of memory")


def test_what_comes_out_of_a_program_is_counted_for_all_runs(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each share of the runs has what goes in and what comes out; only what is held in between is had by turns."""

    class Analysis:
        argument_size_in_bytes, output_size_in_bytes, temp_size_in_bytes = 100, 30, 1000

        def memory_analysis(self) -> "Analysis":
            return self

    limited(monkeypatch, 7 * 130 + 2 * 1000)
    memory.require_memory_of_program(program, Analysis(), 7, 2)
    limited(monkeypatch, 7 * 130 + 2 * 1000 - 1)
    refusal(lambda: memory.require_memory_of_program(program, Analysis(), 7, 2))


@pytest.mark.parametrize("task", [hosted_bits(4), specify(ENVIRONMENT).task])
def test_kept_episodes_are_held_before_and_after_an_update(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state before is what an interruption saves. 100 runs keep a thousand episodes of a kilobyte or so."""
    settings = make_settings({"method": "hppo", "kept_episodes": 1000, "runs": 100, "evaluation_episodes": 8})
    program = make_program(task, settings)
    state = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(program.states(100)))
    limited(monkeypatch, 2 * state)
    memory.require_memory(program, settings, 50)
    said = refusal(lambda: memory.require_memory(program, settings, 100))
    lower = "the runs, the hidden layers, the horizon, the kept episodes, the pairs or the minibatch"
    assert said.endswith(f"lower {lower}.")


def test_sizes_beyond_any_number_are_refused() -> None:
    settings = small_settings(hidden_layers=(10**19, 10**19))
    wide = make_program(specify(ENVIRONMENT).task, settings)
    assert "No memory can hold this" in refusal(lambda: memory.require_memory(wide, settings, 1))


def test_an_update_on_a_simulators_episodes_that_needs_too_much_is_known_before_any_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = make_program(hosted_bits(4), small_settings())
    compiled_loop.require_memory_to_compile(program, runs_of(small_settings()), 8)
    limited(monkeypatch, 1_000_000)
    compiled_loop.require_memory_to_compile(program, runs_of(small_settings()), 8)
    said = refusal(lambda: compiled_loop.require_memory_to_compile(program, runs_of(small_settings()), 80))
    assert said.startswith("This needs at least 0.0 GB of memory")


@pytest.mark.parametrize(
    ("changes", "lower"),
    [
        ({"batches": 10**11, "evaluate_every": 1}, "lower the batches, or evaluate less often."),
        ({"evaluation_episodes": 10**12}, "lower the evaluation episodes."),
        ({"batch_size": 10**12}, "lower the batch size or the horizon."),
    ],
)
def test_what_must_be_held_is_counted(changes: dict[str, int], lower: str) -> None:
    for task in (hosted_bits(4), specify(ENVIRONMENT).task):
        settings = small_settings(**changes)
        assert refusal(partial(memory.require_memory, make_program(task, settings), settings, 1)).endswith(lower)
