"""What can be chosen of each environment that comes with the package; imports nothing heavy."""

from dataclasses import dataclass

from hindsight_rl.core.options import Count, Options


@dataclass(frozen=True)
class BitFlippingOptions(Options):
    """Of `bit-flipping`."""

    bits: int = 8
    """Bits, and so actions."""


@dataclass(frozen=True)
class EmptyRoomOptions(Options):
    """Of `empty-room`."""

    size: int = 11
    """Cells along each side."""


@dataclass(frozen=True)
class FourRoomsOptions(Options):
    """Of `four-rooms`."""

    slip: float = 0.2
    """Probability that an action is replaced by a random one."""


@dataclass(frozen=True)
class GridOptions(Options):
    """Of `grid`."""

    text: str
    """The map itself, as its file holds it."""


@dataclass(frozen=True)
class MsPacmanOptions(Options):
    """Of `ms-pacman`: none."""


@dataclass(frozen=True)
class FetchPushOptions(Options):
    """Of `fetch-push`: none."""


@dataclass(frozen=True)
class MadeGymnasiumOptions(Options):
    """Of a Gymnasium goal environment, whoever makes it."""

    horizon: Count | None = None
    """Largest number of states in an episode; one more than the environment's own limit of steps unless given."""
    goal_box: bool = False
    """Learn only about goals within the box of a hundred goals that the environment draws."""


@dataclass(frozen=True, kw_only=True)
class GymnasiumOptions(MadeGymnasiumOptions):
    """Of `gym`."""

    id: str
    """The name under which Gymnasium knows it, with the module that registers it before a colon if need be."""
