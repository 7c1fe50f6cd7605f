"""Episodes as a film: MP4 through ffmpeg, which the optional package imageio-ffmpeg brings."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from hindsight_rl.core.errors import HindsightError

Picture = UInt8[np.ndarray, "height width 3"]


def film(pictures: Sequence[Picture], frames_per_second: float) -> bytes:
    """The pictures one after another as the content of an MP4 file; the codec wants even sizes, so edges may be cut."""
    if not pictures:
        raise HindsightError("A film needs at least one picture.")
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        raise HindsightError("Videos need imageio-ffmpeg: pip install 'hindsight-rl[video]'.") from None
    height, width = (size - size % 2 for size in pictures[0].shape[:2])
    raw = b"".join(np.ascontiguousarray(picture[:height, :width]).tobytes() for picture in pictures)
    shape = ["-s", f"{width}x{height}", "-r", f"{frames_per_second:g}"]
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", *shape, "-i", "-"]
    wanted = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        command = [get_ffmpeg_exe(), "-loglevel", "error", *given, *wanted, str(path)]
        done = subprocess.run(command, input=raw, capture_output=True, check=False)
        if done.returncode:
            gist = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
            raise HindsightError(f"ffmpeg could not make the film: {gist}.")
        return path.read_bytes()
