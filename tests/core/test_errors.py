"""Sentences that people can read, whatever went into them."""

import pytest

from hindsight_rl.core.errors import LONGEST_SENTENCE, fault_of_machine, in_a_line, one_sentence


def test_a_sentence_has_one_line_a_bounded_length_and_does_not_steer_the_terminal() -> None:
    assert one_sentence("There is no \x1b[31m'a\nb'\x07.") == "There is no \\x1b[31m'a b'\\x07."
    long = one_sentence("x" * 10_000_000)
    assert len(long) < LONGEST_SENTENCE + 100
    assert long.endswith("x ... (10,000,000 characters)")


@pytest.mark.parametrize(
    "error",
    [
        SystemError("error return without exception set"),
        ImportError("libx.so: failed to map segment from shared object"),
        ImportError("libx.so: cannot allocate memory in static TLS block"),
    ],
)
def test_packages_that_find_no_memory_when_they_are_loaded(error: Exception) -> None:
    assert "for want of memory" in (fault_of_machine(error) or "")
    assert fault_of_machine(ImportError("No module named 'x'")) is None


def test_a_name_cannot_pretend_to_be_a_line_of_its_own() -> None:
    assert in_a_line("run\nok\tother\x1b[31m") == "run\\nok\\tother\\x1b[31m"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("invalid truth value 'x' for environment 'JAX_ENABLE_X64'"), "JAX_ENABLE_X64 is wrong."),
        (RuntimeError("Unable to initialize backend 'x'"), "JAX_PLATFORMS may be wrong."),
    ],
)
def test_what_jax_says_of_its_environment(error: Exception, words: str) -> None:
    assert (fault_of_machine(error) or "").endswith(words)
