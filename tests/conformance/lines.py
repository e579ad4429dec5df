"""Straight lines in files of tractograms, and whether a reader has them."""

import itertools
import json
import zipfile
from pathlib import Path

import numpy as np

from napari_gpubio.tractograms.io.blocks import open_blocks
from napari_gpubio.tractograms.model import Tractogram

AFFINE = np.diag([2.0, 2, 2, 1])
SHAPE = (40, 40, 40)
COUNTS = (11, 6, 3, 8)
# Straight lines with points 1 mm apart, each with its own direction.
LINES = [
    (np.array([10.0 + n, 20, 30]) + np.outer(np.arange(count), np.roll([1.0, 0, 0], n))).astype(np.float32)
    for n, count in enumerate(COUNTS)
]
POINTS = np.concatenate(LINES)
OFFSETS = np.cumsum([0, *COUNTS])


CELLS = "\n".join(" ".join(map(str, [b - a, *range(a, b)])) for a, b in itertools.pairwise(OFFSETS))
LINES_TEXT = f"LINES 4 {len(POINTS) + 4}\n{CELLS}"  # of a vtk file


def tck_file(folder: Path, *, rows=None, head="", datatype="Float32LE", count=4, name="a.tck") -> Path:
    """Write the lines as MRtrix does."""
    rows = tck_rows() if rows is None else rows
    kind = f"datatype: {datatype}\n" if datatype else ""
    text = f"mrtrix tracks\n{kind}count: {count}\n{head}file: . 200\nEND\n".encode().ljust(200)
    (folder / name).write_bytes(text + np.asarray(rows, "<f4" if "BE" not in datatype else ">f4").tobytes())
    return folder / name


def tck_rows(lines=LINES) -> np.ndarray:
    """Points with a NaN row behind each line, and inf at the end."""
    closed = [np.vstack([line, np.full(3, np.nan)]) for line in lines]
    return np.concatenate([*closed, np.full((1, 3), np.inf)])


def trx_members(**header) -> dict[str, bytes]:
    """Members of a trx file of the lines, as its specification has them."""
    head = {"DIMENSIONS": SHAPE, "VOXEL_TO_RASMM": AFFINE.tolist(), "NB_VERTICES": len(POINTS), "NB_STREAMLINES": 4}
    return {
        "header.json": json.dumps({key: value for key, value in (head | header).items() if value != "-"}).encode(),
        "positions.3.float32": POINTS.astype("<f4").tobytes(),
        "offsets.uint64": OFFSETS.astype("<u8").tobytes(),
    }


def trx_file(folder: Path, members: dict[str, bytes], name="a.trx", packing=zipfile.ZIP_STORED) -> Path:
    """Pack members into a file."""
    with zipfile.ZipFile(folder / name, "w", packing) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return folder / name


def vtk_file(folder: Path, lines: str, more="", title="SPACE=RAS", points=POINTS) -> Path:
    """Write points, and lines that are given, as text."""
    numbers = "\n".join(" ".join(map(repr, map(float, point))) for point in points)
    (folder / "a.vtk").write_text(
        f"# vtk DataFile Version 3.0\n{title}\nASCII\nDATASET POLYDATA\nPOINTS {len(points)} float\n{numbers}\n"
        f"{lines}\n{more}"
    )
    return folder / "a.vtk"


def fibers(**columns) -> Tractogram:
    """The lines as a tractogram."""
    return Tractogram(points=POINTS, offsets=OFFSETS, affine=AFFINE, shape=SHAPE, **columns)


def patched(path: Path, *patches: tuple[int, bytes]) -> Path:
    """Replace bytes of a file; a negative place counts from its end."""
    data = bytearray(path.read_bytes())
    for at, new in patches:
        at = at if at >= 0 else len(data) + at
        data[at : at + len(new)] = new
    path.write_bytes(data)
    return path


def cut(path: Path, length: int) -> Path:
    """Keep the first bytes of a file, or leave out some at its end."""
    path.write_bytes(path.read_bytes()[:length])
    return path


def check(read: Tractogram, which=(0, 1, 2, 3), tolerance=1e-4) -> Tractogram:
    """The fibers are these lines."""
    assert read.counts.tolist() == [COUNTS[n] for n in which]
    np.testing.assert_allclose(read.points, np.concatenate([LINES[n] for n in which]), rtol=0, atol=tolerance)
    return read


def check_lengths(read: Tractogram, which=(0, 1, 2, 3), tolerance=1e-5) -> Tractogram:
    """The fibers have the lengths of these lines."""
    np.testing.assert_allclose(read.lengths_mm(), [COUNTS[n] - 1 for n in which], rtol=tolerance)
    return read


def check_blocks(path: Path, read: Tractogram) -> Tractogram:
    """The block reader has the same fibers."""
    with open_blocks(path) as blocks:
        assert len(blocks) == len(read)
        for n, line in enumerate(read):
            np.testing.assert_array_equal(blocks.part(n, n + 1).points, line)
    return read
