"""Episodes as a film: MP4 through ffmpeg, which the optional package imageio-ffmpeg brings."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from hindsight.core.errors import HindsightError

Picture = UInt8[np.ndarray, "height width 3"]


def film(pictures: Sequence[Picture], frames_per_second: float) -> bytes:
    """The pictures one after another as the content of an MP4 file; the codec wants even sizes, so edges may be cut."""
    if not pictures:
        raise HindsightError("A film needs at least one picture.")
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401  (imageio finds it by itself, but says less clearly that it is missing)
    except ImportError:
        raise HindsightError("Videos need imageio and imageio-ffmpeg: pip install 'hindsight[video]'.") from None
    height, width = (size - size % 2 for size in pictures[0].shape[:2])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        with imageio.get_writer(path, fps=frames_per_second, codec="libx264", macro_block_size=1, quality=8) as writer:
            for picture in pictures:
                writer.append_data(picture[:height, :width])  # type: ignore[attr-defined]
        return path.read_bytes()
