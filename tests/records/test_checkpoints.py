"""Checkpoints come back as they were saved, or not at all."""

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.checkpoints import FORMAT, load_checkpoint, save_checkpoint

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(endianness="?"),
    hnp.byte_string_dtypes(max_len=5),
    hnp.unicode_string_dtypes(max_len=5),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4)))
NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=12)
METADATA = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
    max_size=4,
)


def small_checkpoint() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {
        "policy/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "batch": np.array(7),
        "key": np.array([1, 2], dtype=np.uint32),
    }
    return arrays, {"method": "hpg", "layers": [4, 4], "rate": 0.1}


def assert_same_arrays(loaded: dict[str, np.ndarray], saved: dict[str, np.ndarray]) -> None:
    assert list(loaded) == list(saved)
    for name, array in saved.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()


def grown(work: Callable[[], object]) -> int:
    """By how many bytes this process grew at most while something was done."""

    def kilobytes(name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert found
        return int(found[1])

    before = kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    work()
    return (kilobytes("VmHWM") - before) * 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells")
def test_large_arrays_are_not_copied(path: Path) -> None:
    """Kept episodes take hundreds of megabytes for each run: they are written from where they lie, and read once."""
    size = 80_000_000
    arrays = {"episodes": np.ones(size, np.uint8)}
    assert grown(lambda: save_checkpoint(path, arrays, {})) < size / 2
    assert grown(lambda: load_checkpoint(path)) < 1.5 * size


def test_what_is_read_can_be_written_to(path: Path) -> None:
    arrays, metadata = small_checkpoint()
    save_checkpoint(path, arrays, metadata)
    loaded, _ = load_checkpoint(path)
    for array in loaded.values():
        array[...] = 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.npz"


@given(arrays=st.dictionaries(NAMES, ARRAYS, max_size=3), metadata=METADATA)
@settings(deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.npz"
    save_checkpoint(path, arrays, metadata)
    loaded, loaded_metadata = load_checkpoint(path)
    assert_same_arrays(loaded, arrays)
    assert loaded_metadata == metadata


def test_column_major_and_strided_arrays_keep_their_values(path: Path) -> None:
    grid = np.arange(12).reshape(3, 4)
    arrays = {"fortran": np.asfortranarray(grid), "transposed": grid.T, "strided": grid[::2, ::-1]}
    save_checkpoint(path, arrays, {})
    assert_same_arrays(load_checkpoint(path)[0], arrays)


def test_loaded_arrays_can_be_written_to(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    assert all(array.flags.writeable for array in load_checkpoint(path)[0].values())


def test_numpy_opens_the_arrays(path: Path) -> None:
    arrays, metadata = small_checkpoint()
    save_checkpoint(path, arrays, metadata)
    with np.load(path, allow_pickle=False) as archive:
        assert_same_arrays({name: archive[name] for name in arrays}, arrays)


def test_same_content_gives_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, metadata = small_checkpoint()
    save_checkpoint(tmp_path / "first", arrays, metadata)
    monkeypatch.setattr("time.time", lambda: 2e9)
    save_checkpoint(tmp_path / "second", arrays, metadata)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_every_flipped_byte_is_caught_or_harmless(path: Path) -> None:
    arrays, metadata = small_checkpoint()
    save_checkpoint(path, arrays, metadata)
    content = path.read_bytes()
    caught = 0
    for position in range(len(content)):
        for mask in (0x01, 0x08, 0x80, 0xFF):
            altered = bytearray(content)
            altered[position] ^= mask
            path.write_bytes(altered)
            try:
                loaded, loaded_metadata = load_checkpoint(path)
            except HindsightError:
                caught += 1
            else:
                assert_same_arrays(loaded, arrays)
                assert loaded_metadata == metadata
    # Only a few header fields, such as dates, may change unnoticed: a reader that checked nothing would fail here.
    assert caught > 0.8 * 4 * len(content)


def test_every_truncation_is_caught(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(HindsightError, match=r"checkpoint\.npz is damaged"):
            load_checkpoint(path)


def rewrite(path: Path, change: dict[str, bytes | None]) -> None:
    """Replace, add or (with None) remove entries, with correct checksums of the archive."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()} | change
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            if content is not None:
                archive.writestr(name, content)


def entry(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def test_missing_file(path: Path) -> None:
    with pytest.raises(HindsightError, match=r"^There is no file .*checkpoint\.npz\.$"):
        load_checkpoint(path)


def test_not_a_zip_file(path: Path) -> None:
    path.write_bytes(b"weights")
    with pytest.raises(HindsightError, match="File is not a zip file"):
        load_checkpoint(path)


def test_someone_elses_npz_file(path: Path) -> None:
    np.savez(path, weight=np.ones(3))
    with pytest.raises(HindsightError, match="no manifest"):
        load_checkpoint(path)


def test_missing_array(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    rewrite(path, {"policy/weight.npy": None})
    with pytest.raises(HindsightError, match="array 'policy/weight' is missing"):
        load_checkpoint(path)


def test_extra_array(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    rewrite(path, {"extra.npy": entry(path, "batch.npy")})
    with pytest.raises(HindsightError, match=r"holds 'extra\.npy'"):
        load_checkpoint(path)


def test_altered_array_whose_archive_is_whole(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    altered = bytearray(entry(path, "policy/weight.npy"))
    altered[-1] ^= 1
    rewrite(path, {"policy/weight.npy": bytes(altered)})
    with pytest.raises(HindsightError, match="array 'policy/weight' does not match its digest"):
        load_checkpoint(path)


def test_altered_array_header_whose_archive_is_whole(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    header = entry(path, "policy/weight.npy")
    for altered in (header.replace(b"(2, 3)", b"(3, 2)"), header.replace(b"<f4", b"<i4")):
        assert altered != header
        rewrite(path, {"policy/weight.npy": altered})
        with pytest.raises(HindsightError, match="array 'policy/weight' does not match its digest"):
            load_checkpoint(path)


def test_swapped_arrays(path: Path) -> None:
    save_checkpoint(path, {"a": np.zeros(2), "b": np.ones(2)}, {})
    rewrite(path, {"a.npy": entry(path, "b.npy"), "b.npy": entry(path, "a.npy")})
    with pytest.raises(HindsightError, match="array 'a' does not match its digest"):
        load_checkpoint(path)


def test_altered_metadata_whose_archive_is_whole(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    rewrite(path, {"manifest.json": entry(path, "manifest.json").replace(b'"hpg"', b'"gpg"')})
    with pytest.raises(HindsightError, match="manifest does not match its own digest"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [b"{", b"3", b'["ab"', b"\xff"])
def test_unreadable_manifest(path: Path, content: bytes) -> None:
    save_checkpoint(path, *small_checkpoint())
    rewrite(path, {"manifest.json": content})
    with pytest.raises(HindsightError, match="manifest is not valid JSON"):
        load_checkpoint(path)


def test_other_format(path: Path) -> None:
    save_checkpoint(path, *small_checkpoint())
    manifest = json.loads(entry(path, "manifest.json")) | {"format": FORMAT + 1}
    rewrite(path, {"manifest.json": json.dumps(manifest).encode()})
    with pytest.raises(HindsightError, match=f"format {FORMAT + 1}, but this hindsight reads only {FORMAT}"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "array",
    [
        np.array([{}, None], dtype=object),
        np.zeros(2, dtype=[("a", "f4"), ("b", object)]),
        np.zeros(2, dtype=[("a", "f4")]),
        np.array(["text"], dtype=np.dtypes.StringDType()),
    ],
)
def test_types_that_would_not_come_back_are_refused(path: Path, array: np.ndarray) -> None:
    with pytest.raises(HindsightError, match="array 'odd' has type"):
        save_checkpoint(path, {"odd": array}, {})
    assert not path.exists()


def test_half_precision_of_brains_is_refused(path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(HindsightError, match="array 'odd' has type bfloat16"):
        save_checkpoint(path, {"odd": np.zeros(2, dtype=ml_dtypes.bfloat16)}, {})


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800"])
def test_names_that_would_not_come_back_are_refused(path: Path, name: str) -> None:
    with pytest.raises(HindsightError, match="cannot name an array"):
        save_checkpoint(path, {name: np.zeros(1)}, {})


@pytest.mark.parametrize("metadata", [{"rate": float("nan")}, {"settings": object()}])
def test_metadata_that_json_cannot_hold_is_refused(path: Path, metadata: dict[str, Any]) -> None:
    with pytest.raises(HindsightError, match="metadata is not valid JSON"):
        save_checkpoint(path, {}, metadata)


def test_metadata_comes_back_as_json_sees_it(path: Path) -> None:
    save_checkpoint(path, {}, {"layers": (4, 4), "by_number": {2: "two", 10: "ten"}})  # type: ignore[dict-item]
    assert load_checkpoint(path)[1] == {"layers": [4, 4], "by_number": {"2": "two", "10": "ten"}}
