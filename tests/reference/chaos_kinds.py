"""All kinds of trials: those that are made within one process, and those that start others."""

from reference.chaos import Trial
from reference.chaos_environments import ENVIRONMENTS
from reference.chaos_files import FILES, MENDED
from reference.chaos_input import INPUT
from reference.chaos_stops import PROCESSES, STOPS

KINDS: dict[str, dict[str, Trial]] = {
    "here": {**FILES, **INPUT, **MENDED, **STOPS},
    "processes": {**PROCESSES, **ENVIRONMENTS},
}
