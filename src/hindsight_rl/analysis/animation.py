"""Animations of episodes, made from their text renderings."""

import io
import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from hindsight_rl.core.errors import HindsightError

_BACKGROUND = "#FFFFFF"
_INK = "#2B3440"
_WALL = "#3B4554"
_FREE = "#F5F3EC"
_START = "#D6E4F0"
_AGENT = "#0072B2"
_GOAL = "#E69F00"
_SUCCESS = "#009E73"

_FILLS = {"#": _WALL, ".": _FREE, "S": _START, "A": _FREE, "G": _FREE, "*": _FREE, "0": _FREE, "1": _WALL}
"""The colour of a whole cell; characters without one are text on the background."""
_SILENT = frozenset("#.SAG* ")
"""Characters that are pictures, not text."""
_OVERSAMPLING = 4


def animate(
    frames: Sequence[tuple[str, str]], cell: int = 28, milliseconds: int = 350, holds: Sequence[int] | None = None
) -> bytes:
    """A looping GIF with one picture for each (caption, text); `holds` gives each frame its own milliseconds.

    In the text, # is a wall, . free, S a start, A the agent, G the goal and * the agent on its goal; 0 and 1 are
    bits, a space is background, and any other character is drawn as it is.
    """
    durations = [milliseconds] * len(frames) if holds is None else list(holds)
    if len(durations) != len(frames) and frames:
        raise HindsightError(f"holds must have one entry for each of the {len(frames)} frames, not {len(durations)}.")
    images = draw(frames, cell)
    buffer = io.BytesIO()
    images[0].save(buffer, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return buffer.getvalue()


def draw(frames: Sequence[tuple[str, str]], cell: int = 28) -> list[Image.Image]:
    """A picture for each (caption, text), all of one size."""
    if not frames:
        raise HindsightError("An animation needs at least one frame.")
    return _draw_frames([_grid(text) for _, text in frames], [caption for caption, _ in frames], cell)


def _grid(text: str) -> list[str]:
    rows = text.strip("\n").split("\n")
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise HindsightError(f"A frame must be a rectangular block of characters, not {text!r}.")
    return rows


def _draw_frames(grids: Sequence[list[str]], captions: Sequence[str], cell: int) -> list[Image.Image]:
    """All frames on canvases of one size, which fits the largest picture and the widest caption."""
    characters = {character for grid in grids for row in grid for character in row}
    tiles = {character: _tile(character, cell) for character in characters}
    labels = [_label(caption, max(11, cell // 2)) for caption in captions]
    margin = cell // 2
    width = max(max(cell * len(grid[0]) for grid in grids), max(label.width for label in labels)) + 2 * margin
    picture_bottom = margin + cell * max(len(grid) for grid in grids)
    height = picture_bottom + margin // 2 + labels[0].height + margin // 2
    images = []
    for grid, label in zip(grids, labels, strict=True):
        image = Image.new("RGB", (width, height), _BACKGROUND)
        _paste_grid(image, grid, tiles, ((width - cell * len(grid[0])) // 2, margin))
        image.paste(label, ((width - label.width) // 2, picture_bottom + margin // 2))
        images.append(image)
    return images


def _paste_grid(image: Image.Image, grid: list[str], tiles: dict[str, Image.Image], corner: tuple[int, int]) -> None:
    left, top = corner
    for row, line in enumerate(grid):
        for column, character in enumerate(line):
            tile = tiles[character]
            image.paste(tile, (left + column * tile.width, top + row * tile.height))


def _label(caption: str, size: int) -> Image.Image:
    """One line of text, drawn as large as it has to be."""
    font = _font(size * _OVERSAMPLING)
    image, draw = _large_canvas(math.ceil(font.getlength(caption) / _OVERSAMPLING) + 2, round(1.5 * size))
    draw.text((image.width / 2, image.height / 2), caption, fill=_INK, font=font, anchor="mm")
    return image.reduce(_OVERSAMPLING)


def _tile(character: str, cell: int) -> Image.Image:
    """The picture of one character."""
    image, draw = _large_canvas(cell, cell)
    size = image.width
    if character in _FILLS:
        gap = 0 if character == "#" else max(1, size // 28)
        draw.rectangle((0, 0, size - 1 - gap, size - 1 - gap), fill=_FILLS[character])
    if character in "G*":
        _draw_goal(draw, size, _GOAL if character == "G" else _SUCCESS)
    if character == "A":
        _draw_disc(draw, size, size // 5, _AGENT)
    if character == "*":
        _draw_disc(draw, size, size // 3, _BACKGROUND)
    if character not in _SILENT:
        colour = _BACKGROUND if character == "1" else _INK
        draw.text((size / 2, size / 2), character, fill=colour, font=_font(size * 0.55), anchor="mm")
    return image.reduce(_OVERSAMPLING)


def _large_canvas(width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """A canvas to be averaged down once drawn, which smooths all edges with few colours.

    A GIF has 256 of them; letters smoothed by the font engine alone would take more, and bend all the others.
    """
    image = Image.new("RGB", (width * _OVERSAMPLING, height * _OVERSAMPLING), _BACKGROUND)
    draw = ImageDraw.Draw(image)
    draw.fontmode = "1"
    return image, draw


def _draw_goal(draw: ImageDraw.ImageDraw, size: int, colour: str) -> None:
    inset = size // 8
    draw.rounded_rectangle((inset, inset, size - inset, size - inset), radius=size // 6, fill=colour)


def _draw_disc(draw: ImageDraw.ImageDraw, size: int, inset: int, colour: str) -> None:
    draw.ellipse((inset, inset, size - inset, size - inset), fill=colour)


def _font(size: float) -> ImageFont.FreeTypeFont:
    # matplotlib ships this font everywhere and it has the symbols that captions use; Pillow's own lacks many.
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)
