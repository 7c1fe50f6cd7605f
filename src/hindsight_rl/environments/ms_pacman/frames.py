"""From emulator screens to what the policy is shown of Ms. Pac-man: 84x84 grey values.

Emulator screens are read as palette numbers, many times faster than as colours. From one frame to the next all but
some hundred pixels stay the same: only eights of pixels that changed are looked up, only rows that changed are shrunk.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int, UInt8

Screen = UInt8[np.ndarray, "210 160"]
"""The palette number of each pixel."""
Colours = UInt8[np.ndarray, "210 160 3"]

SIDE = 84
DEPTH = 4
"""Frames in an observation."""
EIGHTS = slice(2 * 20, 170 * 20)
"""What is kept of a screen: 168 rows without the lives and the score, each as 20 times eight pixels."""
COLUMNS = slice(2, 158)
"""What is kept of a row."""

LUMINANCE = np.array([0.299, 0.587, 0.114])
UNKNOWN = -1
NO_NUMBER = 255
"""Palette numbers are even."""


class Palette:
    """Grey values of pairs of palette numbers: of the greater of the two in each colour channel."""

    def __init__(self) -> None:
        self._known = np.zeros(256, bool)
        self._colours = np.zeros((256, 3), np.uint8)
        self._greys = np.full(256 * 256, UNKNOWN, np.int16)

    def learn(self, screen: Screen, colours: Callable[[], Colours]) -> None:
        """Learn the colours of the numbers on a screen; `colours` reads it in colour, if there is a new one."""
        numbers = np.unique(screen)
        if self._known[numbers].all():
            return
        self._colours[screen] = colours()
        self._known[numbers] = True
        known = np.flatnonzero(self._known)
        greatest = np.maximum(self._colours[known][:, None], self._colours[known][None])
        greys = grey_values(greatest.reshape(-1, 3)).reshape(len(known), len(known))
        self._greys.reshape(256, 256)[np.ix_(known, known)] = greys

    def greys(
        self, before: UInt8[np.ndarray, "*pixel"], after: UInt8[np.ndarray, "*pixel"]
    ) -> Int[np.ndarray, "*pixel"]:
        """Grey values, `UNKNOWN` where a number was never learned."""
        return self._greys[before.astype(np.uint16) << 8 | after]


_NEW = np.arange(1, DEPTH + 1)[:, None]
"""The frames of this observation."""


class Frames:
    """What the policy is shown: each frame is the greatest of two screens, and there are four in an observation."""

    def __init__(self) -> None:
        # Two screens for the last frame of the observation before this one, and two for each frame of this one.
        self._screens = np.full((2 * (DEPTH + 1), 210, 160), NO_NUMBER, np.uint8)
        eights = self._screens.view(np.uint64).reshape(len(self._screens), -1)[:, EIGHTS]
        self._before, self._after = eights[0::2], eights[1::2]
        self._greys = np.zeros((DEPTH + 1, 168 * 20), np.uint64)
        self._shrunk = np.zeros((DEPTH + 1, SIDE, SIDE), np.uint8)

    @property
    def places(self) -> list[Screen]:
        """Where the screens of the four frames belong: two for each; `advance` fills the first."""
        return list(self._screens[2:])

    def advance(self, before: Screen | None = None) -> None:
        """Make room for the next observation, which begins with the last screen unless another one is given."""
        for whole, kept in ((self._screens, 2), (self._greys, 1), (self._shrunk, 1)):
            whole[:kept] = whole[-kept:]
        self._screens[2] = self._screens[-1] if before is None else before

    def observation(self, palette: Palette) -> UInt8[np.ndarray, "84 84 4"] | None:
        """The four frames; nothing where the palette does not know a number."""
        changed = (self._before[1:] != self._before[:-1]) | (self._after[1:] != self._after[:-1])
        eights = np.flatnonzero(changed.any(axis=0))
        before, after = (each[_NEW, eights].view(np.uint8) for each in (self._before, self._after))
        greys = palette.greys(before, after)
        if greys.min(initial=0) == UNKNOWN:
            return None
        self._greys[1:] = self._greys[0]
        self._greys[1:, eights] = greys.astype(np.uint8).view(np.uint64)
        touched = np.zeros(SIDE, bool)
        touched[eights // 40] = True
        rows = np.flatnonzero(touched)
        pairs = self._greys.view(np.uint8).reshape(DEPTH + 1, SIDE, 2, 160)[_NEW, rows, :, COLUMNS]
        self._shrunk[1:] = self._shrunk[0]
        self._shrunk[1:, rows] = shrink(pairs)
        shown = np.empty((SIDE, SIDE, DEPTH), np.uint8)
        for frame in range(DEPTH):
            shown[..., frame] = self._shrunk[frame + 1]
        return shown


def grey_values(colours: UInt8[np.ndarray, "*pixel 3"]) -> UInt8[np.ndarray, "*pixel"]:
    """The luminance of each colour, rounded down."""
    return (colours @ LUMINANCE).astype(np.uint8)


def shrink(pairs: UInt8[np.ndarray, "frame pair 2 156"]) -> UInt8[np.ndarray, "frame pair 84"]:
    """Scale pairs of rows to rows of 84 by the mean over the area that each new pixel covers, rounded to the nearest.

    13 columns become 7. All sums are whole numbers below 2^24, so they are exact in whichever order they are added.
    """
    rows = np.add(pairs[..., 0, :], pairs[..., 1, :], dtype=np.float32)
    sums = (rows.reshape(-1, 13) @ _SEVENTHS).astype(np.uint16)
    return ((sums + 13) // 26).astype(np.uint8).reshape(*pairs.shape[:2], SIDE)


def _sevenths() -> Float[np.ndarray, "13 7"]:
    """How many sevenths of each of 13 columns each of 7 new columns covers."""
    edges = np.arange(8) * 13
    starts = np.arange(13)[:, None] * 7
    covered = np.minimum(starts + 7, edges[None, 1:]) - np.maximum(starts, edges[None, :-1])
    return np.maximum(covered, 0).astype(np.float32)


_SEVENTHS = _sevenths()
