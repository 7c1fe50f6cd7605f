"""Environments whose episodes are played by simulators, outside of the compiled program."""

from abc import abstractmethod

from hindsight.environments.interface import Task
from hindsight.environments.simulators import SimulatorSource


class HostedEnvironment(Task):
    """A task, and where its simulators come from."""

    @property
    @abstractmethod
    def simulator(self) -> SimulatorSource:
        """How a worker makes its simulators."""

    @property
    def observation_type(self) -> str:
        """The type of observations: uint8 for pictures."""
        return "uint8" if len(self.observation_shape) == 3 else "float32"

    @property
    def workers(self) -> bool:
        """Whether simulators can be made in other processes; otherwise one plays here, one episode at a time."""
        return True
