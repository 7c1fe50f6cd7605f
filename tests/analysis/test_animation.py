"""Animations show the text renderings cell by cell."""

import io

import pytest
from PIL import Image

from hindsight_rl.analysis.animation import animate
from hindsight_rl.core.errors import HindsightError

CELL = 28
MARGIN = CELL // 2
WHITE = (255, 255, 255)
WALL, FREE, START = (0x3B, 0x45, 0x54), (0xF5, 0xF3, 0xEC), (0xD6, 0xE4, 0xF0)
AGENT, GOAL, SUCCESS = (0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00), (0x00, 0x9E, 0x73)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def pictures(data: bytes) -> list[Image.Image]:
    gif = opened(data)
    images = []
    for index in range(getattr(gif, "n_frames", 1)):
        gif.seek(index)
        images.append(gif.convert("RGB"))
    return images


def pixel(image: Image.Image, row: int, column: int, across: float = 0.5) -> tuple[int, ...]:
    """The colour at half the height of a cell of a picture as wide as its canvas."""
    place = MARGIN + int((column + across) * CELL), MARGIN + int((row + 0.5) * CELL)
    colour = image.getpixel(place)
    assert isinstance(colour, tuple)
    return colour


def test_each_character_has_its_colour() -> None:
    (image,) = pictures(animate([("", "#.S \nAG* ")]))
    assert [pixel(image, 0, column) for column in range(4)] == [WALL, FREE, START, WHITE]
    assert [pixel(image, 1, column) for column in range(2)] == [AGENT, GOAL]
    assert pixel(image, 1, 2, across=0.2) == SUCCESS
    assert pixel(image, 1, 0, across=0.05) == FREE


def test_bits_are_light_and_dark_with_their_digit() -> None:
    (image,) = pictures(animate([("", "01")]))
    assert pixel(image, 0, 0, across=0.1) == FREE
    assert pixel(image, 0, 1, across=0.1) == WALL
    assert pixel(image, 0, 1) == WHITE  # the stroke of the digit 1


def test_other_characters_are_drawn_as_text() -> None:
    blank, letter = (pictures(animate([("", text)]))[0] for text in (" ", "x"))
    assert {colour for _, colour in blank.getcolors() or []} == {WHITE}
    assert len(letter.getcolors() or []) > 1


def test_colours_are_exact_in_every_frame() -> None:
    # A palette that overflowed would bend them, and make the picture flicker.
    text = "#.SAG*01?\nabcdefghi"
    frames = [(f"step {index}: 3 → 4 ✓, a long caption with many letters", text) for index in range(3)]
    for image in pictures(animate(frames)):
        left = (image.width - 9 * CELL) // 2
        assert image.getpixel((left + CELL // 2, MARGIN + CELL // 2)) == WALL
        assert image.getpixel((left + 4 * CELL + CELL // 2, MARGIN + CELL // 2)) == GOAL
        assert len(image.getcolors() or []) < 256


def test_frames_change_and_last_is_held() -> None:
    frames = [("step 0", "A.G"), ("step 1", ".AG"), ("step 2", "..*")]
    gif = opened(animate(frames, holds=[100, 200, 1500]))
    durations = []
    for index in range(3):
        gif.seek(index)
        durations.append(gif.info["duration"])
    assert durations == [100, 200, 1500]
    assert gif.info["loop"] == 0
    images = pictures(animate(frames))
    left = (images[0].width - 3 * CELL) // 2
    agents = [
        image.getpixel((left + CELL * index + CELL // 2, MARGIN + CELL // 2)) for index, image in enumerate(images)
    ]
    assert agents[:2] == [AGENT, AGENT]


def test_duration_of_every_frame_by_default() -> None:
    gif = opened(animate([("a", "A."), ("b", ".A")], milliseconds=120))
    assert gif.info["duration"] == 120


def test_caption_is_under_the_picture_and_fits() -> None:
    caption = "a caption much wider than the picture"
    image = pictures(animate([(caption, "A")]))[0]
    bare = pictures(animate([("", "A")]))[0]
    assert image.width > bare.width
    assert image.height == bare.height
    strip = image.crop((0, MARGIN + CELL, image.width, image.height))
    ink = [
        column
        for column in range(strip.width)
        if strip.crop((column, 0, column + 1, strip.height)).getcolors(999) != [(strip.height, WHITE)]
    ]
    assert ink[0] >= MARGIN - 2
    assert ink[-1] <= image.width - MARGIN + 2
    assert ink[-1] - ink[0] > 0.8 * (image.width - 2 * MARGIN)


def test_pictures_of_different_sizes_share_a_canvas() -> None:
    images = pictures(animate([("", "A"), ("", "...\n.A.\n...")]))
    assert len({image.size for image in images}) == 1


def test_cell_size() -> None:
    small, large = (pictures(animate([("", "....")], cell=cell))[0] for cell in (10, 40))
    assert (small.width, large.width) == (40 + 10, 160 + 40)


@pytest.mark.parametrize("text", ["", "\n", "ab\nc"])
def test_text_that_is_not_a_block_is_refused(text: str) -> None:
    with pytest.raises(HindsightError, match="rectangular"):
        animate([("", text)])


def test_wrong_number_of_frames_or_holds_is_refused() -> None:
    with pytest.raises(HindsightError, match="at least one frame"):
        animate([])
    with pytest.raises(HindsightError, match="each of the 1 frames, not 2"):
        animate([("", "A")], holds=[1, 2])
