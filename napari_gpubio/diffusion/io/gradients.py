"""Gradient tables: FSL's bval and bvec files, and MRtrix's tables of four columns.

FSL gives directions in the axes of the image, and turns the first one round when the affine has a positive
determinant, so that they always refer to a left-handed ("radiological") image. See the FSL documentation of dtifit,
"What conventions do the bvecs use?". MRtrix gives them in world axes, and here they are so throughout.
"""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, flush_to_disk
from napari_gpubio.core.foreign import existing_text
from napari_gpubio.core.reading import reading
from napari_gpubio.core.space import fsl_axes
from napari_gpubio.diffusion.model import B0_LIMIT

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_TOLERATED_LENGTH = 0.01  # |g| may differ from 1 by so much before it is taken to scale b, as in MRtrix3
_SHORTEST, _LONGEST = 1e-6, 1e3
_SCALED = 1e2, 1e5  # lengths that all lie in between are directions in thousandths and the like, and say nothing of b
_LARGEST_B, _UNUSUAL_B = 1e6, 3e4
_MIN_COUNTED = 3  # rows that a column of their numbers is known by
_DECIMAL_COMMA = re.compile(r"([-+]?\d+),(\d+)(?=[\s,]|$)")
_THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}")  # 1,000 is one or a thousand


class Gradients(NamedTuple):
    """A gradient table that was tidied.

    Parameters
    ----------
    bvals
        s/mm^2, shape (N,).
    directions
        Unit vectors, shape (N, 3); zero where b is 0 or none is known.
    usable
        Volumes that are either not weighted or have a direction, shape (N,).
    notes
        What was found or changed, in sentences for the user.
    """

    bvals: Floats
    directions: Floats
    usable: npt.NDArray[np.bool_]
    notes: tuple[str, ...]


def fsl_to_world(vectors: npt.ArrayLike, affine: npt.ArrayLike) -> Floats:
    """Turn vectors of a bvec file, shape (N, 3), into world axes; ``affine``: the image's, voxel to world."""
    return np.asarray(vectors, np.float64) @ fsl_axes(affine).T


def world_to_fsl(directions: npt.ArrayLike, affine: npt.ArrayLike) -> Floats:
    """Turn vectors in world axes, shape (N, 3), into FSL's convention; the inverse of `fsl_to_world`."""
    return np.asarray(directions, np.float64) @ fsl_axes(affine)


def read_fsl_gradients(
    bval_path: str | Path,
    bvec_path: str | Path,
    n_volumes: int,
    affine: npt.ArrayLike,
    *,
    b0_limit: float = B0_LIMIT,
) -> Gradients:
    """Read a pair of bval and bvec files.

    Numbers may be separated by blanks, tabs, commas or semicolons. A bval file may be a column, and a bvec file may
    have a row for each volume; with three volumes, where both layouts fit, FSL's own (three rows) holds. Only where
    a file has too many numbers otherwise, its commas are decimal ones, or a column that counts the rows is left out.

    Parameters
    ----------
    bval_path, bvec_path
        The two files.
    n_volumes
        Number of volumes of the image.
    affine
        Voxel to world, mm, of the image.
    b0_limit
        Volumes up to this b-value, s/mm^2, need no direction.

    Returns
    -------
    Gradients
        With directions in world axes.

    Raises
    ------
    InvalidInput
        If a file is missing, empty, not text, has words, or does not fit the image; or as `tidy_gradients`.
    """
    bval_path, bvec_path = Path(bval_path), Path(bvec_path)
    with reading(bval_path):
        rows, bval_notes = _table(bval_path, n_volumes)
        bvals, bval_note = _bvals(rows, n_volumes, bval_path.name)
    with reading(bvec_path):
        rows, bvec_notes = _table(bvec_path, 3 * n_volumes)
        vectors, bvec_note = _bvecs(rows, n_volumes, bvec_path.name)
    with reading(f"{bval_path.name} and {bvec_path.name}"):
        found = tidy_gradients(bvals, vectors, b0_limit=b0_limit)
    notes = (*bval_notes, *bval_note, *bvec_notes, *bvec_note, *found.notes)
    return found._replace(directions=fsl_to_world(found.directions, affine), notes=notes)


def read_mrtrix_gradients(path: str | Path, n_volumes: int, *, b0_limit: float = B0_LIMIT) -> Gradients:
    """Read a table of MRtrix (``mrinfo -export_grad_mrtrix``): a row x, y, z, b for each volume, in world axes.

    Parameters and errors as of `read_fsl_gradients`; lines that begin with ``#`` are passed over.
    """
    path = Path(path)
    with reading(path):
        rows, notes = _table(path, 4 * n_volumes)
        if len(rows) != n_volumes or any(len(row) != 4 for row in rows):
            lengths = sorted({len(row) for row in rows})
            raise InvalidInput(
                f"{path.name} has {len(rows)} rows of {', '.join(map(str, lengths[:8]))} numbers; the image's "
                f"{n_volumes} volumes need a row of 4 each: x, y, z, b"
            )
        table = np.array(rows)
        found = tidy_gradients(table[:, 3], table[:, :3], b0_limit=b0_limit)
    return found._replace(notes=(*notes, *found.notes))


def write_fsl_gradients(
    bval_path: str | Path, bvec_path: str | Path, bvals: npt.ArrayLike, directions: npt.ArrayLike, affine: npt.ArrayLike
) -> None:
    """Write a pair of bval and bvec files in FSL's layout, with 15 digits.

    Parameters
    ----------
    bval_path, bvec_path
        Where to write; older files are replaced only when the new ones are complete.
    bvals
        s/mm^2, shape (N,).
    directions
        World axes, shape (N, 3).
    affine
        Voxel to world, mm, of the image they belong to.

    Raises
    ------
    InvalidInput
        If shapes differ, a value is not finite, or a folder does not exist.
    """
    b, vectors = np.asarray(bvals, np.float64), np.asarray(directions, np.float64)
    if b.ndim != 1 or vectors.shape != (len(b), 3):
        raise InvalidInput(f"{b.size} b-values and directions of shape {vectors.shape} do not fit; give N and (N, 3)")
    if not (np.isfinite(b).all() and np.isfinite(vectors).all()):
        raise InvalidInput("the gradient table has values that are not finite; repair it before writing")
    with ExitStack() as renaming:  # of both, when both are written
        for path, rows in ((bval_path, b[None]), (bvec_path, world_to_fsl(vectors, affine).T + 0.0)):
            part = renaming.enter_context(atomic_write(path))
            np.savetxt(part, rows, fmt="%.15g")
            flush_to_disk(part)
        # if the program is killed in between, one file is missing, which every reader sees, but old and new do not mix
        Path(bval_path).resolve().unlink(missing_ok=True)


def tidy_gradients(bvals: npt.ArrayLike, vectors: npt.ArrayLike, *, b0_limit: float = B0_LIMIT) -> Gradients:
    """Normalize directions, and scale b-values by their squared lengths where these differ from 1 by more than 1 %.

    The scaling is that of MRtrix3 (documentation, "Diffusion gradient scheme handling"): several shells may be written
    as one b-value with vectors of several lengths. Either every b-value is scaled or none; up to 1 % is taken for
    rounding, and no b-value is changed; nor is one where all vectors are 1000 long, or the like. What up to
    ``b0_limit`` is written as a direction may be anything, as the NaN of FSL's eddy. A weighted volume without a
    direction, as an average over directions, or without a b-value, cannot be used. InvalidInput if b-values or vectors
    are out of all reason, or nothing weighted can be used.
    """
    b, g = np.array(bvals, np.float64), np.array(vectors, np.float64)
    unknown = ~np.isfinite(b)
    b[unknown] = 0.0
    _check_bvals(b)
    weighted = b > b0_limit
    no_numbers = ~np.isfinite(g).all(axis=1)
    g[no_numbers] = 0.0
    scale, notes = _scale_of(g[weighted]), list[str]()
    if scale != 1:
        notes.append(f"gradient vectors all have the length {scale:.4g}; only their directions were taken")
        g /= scale
    _check_vectors(g)
    lengths = np.linalg.norm(g, axis=1)
    lengths[lengths < _SHORTEST] = 0.0
    bare = weighted & (lengths == 0)
    usable = ~(bare | unknown)
    if weighted.any() and not (weighted & usable).any():
        raise InvalidInput(
            f"{volumes_have(np.flatnonzero(bare))} b = {b[bare][0]:g} s/mm^2 and the direction (0, 0, 0), and no "
            "weighted volume has one; give the gradient table of the scan"
        )
    if unknown.any():
        notes.append(f"{volumes_have(np.flatnonzero(unknown))} no b-value that is a number: left out")
    if bare.any():
        what = f"b = {b[bare][0]:g} s/mm^2 and no direction (an average over directions, or an entry that is no number)"
        notes.append(f"{volumes_have(np.flatnonzero(bare))} {what}: left out")
    if (no_numbers & ~weighted & ~unknown).any():
        count = np.count_nonzero(no_numbers & ~weighted & ~unknown)
        notes.append(f"directions of volumes at b = 0 that are not numbers, and not needed: {count}")
    counted = lengths[weighted & usable]
    if (np.abs(counted - 1) > _TOLERATED_LENGTH).any():
        notes.append(
            f"gradient vectors have lengths from {counted.min():.3g} to {counted.max():.3g}; "
            "b-values were multiplied by the squared lengths, as MRtrix does"
        )
        b *= np.where(lengths > 0, lengths**2, 1.0)
        _check_bvals(b)
    if b.max(initial=0.0) > _UNUSUAL_B:
        notes.append(
            f"the largest b-value is {b.max():g} s/mm^2, which only preclinical scanners reach; check the table"
        )
    if 0 < b.max(initial=0.0) <= b0_limit:
        notes.append(
            f"the largest b-value is {b.max():g} s/mm^2, so no volume counts as diffusion weighted; "
            "if the file is in ms/um^2, multiply it by 1000"
        )
    directed = (lengths > 0) & (b > 0)
    g[directed] /= lengths[directed, None]
    g[~directed] = 0.0
    return Gradients(b, g, usable, tuple(notes))


def _scale_of(vectors: Floats) -> float:
    """How long all vectors are that are not 0, if that is long and the same; else 1."""
    lengths = np.linalg.norm(vectors, axis=1)
    lengths = lengths[lengths > _SHORTEST]
    low, high = lengths.min(initial=np.inf), lengths.max(initial=0.0)
    is_scaled = _SCALED[0] < low <= high < min(_SCALED[1], (1 + _TOLERATED_LENGTH) * low)
    return float(np.median(lengths)) if is_scaled else 1.0


def _table(path: Path, count: int) -> tuple[list[list[float]], tuple[str, ...]]:
    """Rows of numbers of a text file, which should be so many in all, and notes on how they were made to be."""
    text = existing_text(path).replace(";", " ")
    rows = _rows(text.replace(",", " "), path.name)
    if not rows:
        raise InvalidInput(f"{path.name} is empty; give a bval or bvec file")
    words = [word for word in text.split() if "," in word.strip(",")]
    is_decimal = bool(words) and "." not in text and all(_DECIMAL_COMMA.fullmatch(word.strip(",")) for word in words)
    if (fitting := _fitting(rows, count, path.name)) is not None or not is_decimal:
        return fitting or (rows, ())
    fitting = _fitting(_rows(_DECIMAL_COMMA.sub(r"\1.\2", text).replace(",", " "), path.name), count, path.name)
    if fitting is None:
        return rows, ()
    if all(_THOUSANDS.fullmatch(word.strip(",")) for word in words):
        raise InvalidInput(f"{path.name} has {words[0]!r}, which may be a decimal comma or not; write it without one")
    return fitting[0], (f"the commas of {path.name} are decimal ones, as in {words[0]!r}", *fitting[1])


def _fitting(rows: list[list[float]], count: int, name: str) -> tuple[list[list[float]], tuple[str, ...]] | None:
    """Rows that have so many numbers, if need be without a first column that counts the rows, with a note; or None."""
    total = sum(map(len, rows))
    first, order = [row[0] for row in rows], range(len(rows))
    if total - len(rows) == count and len(rows) >= _MIN_COUNTED and first in ([*order], [n + 1 for n in order]):
        return [row[1:] for row in rows], (f"the first column of {name} counts its rows, and was left out",)
    return (rows, ()) if total == count else None


def _rows(text: str, name: str) -> list[list[float]]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [row for row in (_row(line, name) for line in lines) if row]


def _row(line: str, name: str) -> list[float]:
    numbers = []
    for word in line.split():
        try:
            numbers.append(float(word))
        except ValueError:
            raise InvalidInput(
                f"{name} has {word[:40]!r} where a number should be; remove what is not a number"
            ) from None
    return numbers


def _bvals(rows: list[list[float]], n_volumes: int, name: str) -> tuple[Floats, tuple[str, ...]]:
    if len(rows) > 1 and max(map(len, rows)) > 1:
        raise InvalidInput(f"{name} has {len(rows)} rows of numbers; b-values are one row: is it the bvec file?")
    numbers = np.array([number for row in rows for number in row])
    if len(numbers) != n_volumes:
        raise InvalidInput(
            f"{name} has {len(numbers)} b-values and the image {n_volumes} volumes; they must be as many"
        )
    return numbers, (f"{name} is a column; it was read as a row",) if len(rows) > 1 else ()


def _bvecs(rows: list[list[float]], n_volumes: int, name: str) -> tuple[Floats, tuple[str, ...]]:
    if len({len(row) for row in rows}) > 1:
        raise InvalidInput(f"{name} has rows of {', '.join(str(len(r)) for r in rows[:8])} numbers; they must be equal")
    table = np.array(rows)
    if table.shape == (3, 3) == (3, n_volumes) and _are_units(table) and not _are_units(table.T):
        return table, (f"{name} has three rows of length 1, so each was taken for a volume",)
    if table.shape == (3, n_volumes):
        return table.T, ()
    if table.shape == (n_volumes, 3):
        return table, (f"{name} has a row for each volume; it was turned to FSL's three rows",)
    raise InvalidInput(
        f"{name} has {table.shape[0]} rows of {table.shape[1]} numbers; for the image's {n_volumes} volumes "
        f"it needs 3 rows of {n_volumes}"
    )


def _are_units(vectors: Floats) -> bool:
    lengths = np.linalg.norm(vectors, axis=1)
    return bool((np.abs(lengths - 1) <= _TOLERATED_LENGTH).all())


def _check_bvals(bvals: Array) -> None:
    if (bad := np.flatnonzero((bvals < 0) | (bvals > _LARGEST_B))).size:
        raise InvalidInput(f"{volumes_have(bad)} the b-value {bvals[bad[0]]:g}; give b-values in s/mm^2, from 0 to 1e6")


def _check_vectors(vectors: Array) -> None:
    if (bad := np.flatnonzero((np.abs(vectors) > _LONGEST).any(axis=1))).size:
        raise InvalidInput(f"{volumes_have(bad)} a direction longer than {_LONGEST:g}; give unit vectors")


def volumes_have(indices: Array) -> str:
    """Begin a sentence: "volume 3 has", "2 volumes (the first: 3) have"; counted from 0."""
    if len(indices) == 1:
        return f"volume {indices[0]} (counted from 0) has"
    return f"{len(indices)} volumes (the first: {indices[0]}, counted from 0) have"
