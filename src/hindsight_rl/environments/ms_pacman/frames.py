"""From emulator screens to what the policy is shown of Ms. Pac-man: 84x84 grey values.

Emulator screens are read as palette numbers, many times faster than as colours. Screens a few ticks apart are the same
but for a few hundred pixels, so only pixels that changed since the last one are looked up.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

Screen = UInt8[np.ndarray, "210 160"]
"""The palette number of each pixel."""
Colours = UInt8[np.ndarray, "210 160 3"]

SIDE = 84
ROWS = slice(2, 170)
COLUMNS = slice(2, 158)
"""What is kept of a screen: 168 rows without the lives and the score, 156 columns."""

LUMINANCE = np.array([0.299, 0.587, 0.114])


class Frame(NamedTuple):
    """The part of a screen that is kept, row by row."""

    numbers: UInt8[np.ndarray, " pixel"]
    """Palette numbers."""
    greys: UInt8[np.ndarray, " pixel"]


class Palette:
    """Turns screens into frames, and learns the colour of each palette number when it first appears."""

    def __init__(self) -> None:
        self._known = np.zeros(256, bool)
        self._colours = np.zeros((256, 3), np.uint8)
        self._greys = np.zeros(256, np.uint8)

    def frame(self, screen: Screen, colours: Callable[[], Colours], last: Frame | None) -> Frame:
        """Crop a screen and make it grey, given the frame read last.

        `colours` reads the same screen in colour; it is called only when there is something new.
        """
        numbers = screen[ROWS, COLUMNS].ravel()
        if last is None:
            last = Frame(~numbers, np.zeros_like(numbers))
        changed = np.flatnonzero(numbers != last.numbers)
        if not self._known[numbers[changed]].all():
            self._learn(screen, colours())
        greys = last.greys.copy()
        greys[changed] = self._greys[numbers[changed]]
        return Frame(numbers, greys)

    def greatest(self, before: Frame, after: Frame) -> UInt8[np.ndarray, "168 156"]:
        """Grey values of the element-wise maximum of two frames, taken for each colour channel before turning grey."""
        greys = after.greys.copy()
        changed = np.flatnonzero(before.numbers != after.numbers)
        colours = np.maximum(self._colours[before.numbers[changed]], self._colours[after.numbers[changed]])
        greys[changed] = grey_values(colours)
        return greys.reshape(168, 156)

    def _learn(self, screen: Screen, colours: Colours) -> None:
        self._colours[screen] = colours
        self._greys = grey_values(self._colours)
        self._known[screen] = True


def grey_values(colours: UInt8[np.ndarray, "*pixel 3"]) -> UInt8[np.ndarray, "*pixel"]:
    """The luminance of each colour, rounded down."""
    return (colours @ LUMINANCE).astype(np.uint8)


def shrink(frames: UInt8[np.ndarray, "frame 168 156"]) -> UInt8[np.ndarray, "84 84 frame"]:
    """Scale frames to 84x84 by the mean over the area that each new pixel covers, rounded to the nearest number."""
    pairs = np.add(frames[:, 0::2], frames[:, 1::2], dtype=np.float32)
    # 13 columns become 7. All sums are whole numbers below 2^24, so they are exact in whichever order they are added.
    sums = (pairs.reshape(-1, 13) @ _SEVENTHS).astype(np.uint16)
    means = ((sums + 13) // 26).astype(np.uint8)
    return np.stack(list(means.reshape(len(frames), SIDE, SIDE)), axis=2)


def _sevenths() -> np.ndarray:
    """How many sevenths of each of 13 columns each of 7 new columns covers."""
    edges = np.arange(8) * 13
    starts = np.arange(13)[:, None] * 7
    covered = np.minimum(starts + 7, edges[None, 1:]) - np.maximum(starts, edges[None, :-1])
    return np.maximum(covered, 0).astype(np.float32)


_SEVENTHS = _sevenths()
