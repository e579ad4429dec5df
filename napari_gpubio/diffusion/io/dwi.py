"""Diffusion scans, and volumes of the same study: scalar maps, labels and masks, from NIfTI or MRtrix."""

import dataclasses
import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import volumes as nifti
from napari_gpubio.core.bids import inherited
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.mif import MIF_SUFFIXES, MifImage, read_mif
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.volumes import nifti_affine, nifti_array, open_nifti, stem_of
from napari_gpubio.diffusion.io.gradients import (
    Gradients,
    read_fsl_gradients,
    read_mrtrix_gradients,
    tidy_gradients,
    volumes_have,
)
from napari_gpubio.diffusion.model import B0_LIMIT, DiffusionScan

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]
_MRTRIX_TABLES = (".b", ".grad")
MAX_NEGATIVE = 0.01  # of signals, which are magnitudes; interpolation makes some negative
_MIN_SPREAD = 0.01  # of directions along the axis that they have least of, over that of the one they have most of


def read_volume(path: str | Path) -> tuple[Array, Affine]:
    """Read one three-dimensional volume and its affine (mm), also from ``.mif`` and ``.mif.gz`` files of MRtrix.

    Otherwise as `napari_gpubio.core.volumes.read_volume`, with the same errors.
    """
    array, affine = read_array(path)
    return nifti.one_volume(array, Path(path).name), affine


def read_array(path: str | Path) -> tuple[Array, Affine]:
    """Read the whole array of an image, of any number of dimensions, and its affine (mm); errors as `read_volume`."""
    if not str(path).lower().endswith(MIF_SUFFIXES):
        return nifti.read_array(path)
    image = _real_mif(path)
    return image.data, image.affine


def _real_mif(path: str | Path) -> MifImage:
    image = read_mif(path)
    if image.data.dtype.kind == "c":
        raise InvalidInput(f"{Path(path).name} holds complex values; only real ones can be used: save its magnitude")
    return image


def read_any_array(path: str | Path) -> tuple[Array, Affine]:
    """Read an image to look at it, as `read_array`: it may be complex, and colors are a last axis of 3 or 4 uint8."""
    if not str(path).lower().endswith(MIF_SUFFIXES):
        return nifti.read_any_array(path)
    image = read_mif(path)
    return image.data, image.affine


def read_mask(path: str | Path, shape: tuple[int, ...], affine: Affine) -> npt.NDArray[np.bool_]:
    """Read a mask that must lie on a given grid; voxels that are not zero are inside.

    Parameters
    ----------
    path
        As for `read_volume`.
    shape, affine
        Grid of the volume that the mask belongs to (voxel to world, mm).

    Returns
    -------
    ndarray of bool
        Shape ``shape[:3]``.

    Raises
    ------
    InvalidInput
        As `read_volume`, or if the grid differs by more than 1e-3 mm or the mask is empty.
    """
    name = Path(path).name
    array, own_affine = read_volume(path)
    if array.shape != tuple(shape[:3]):
        raise InvalidInput(
            f"the mask {name} has shape {array.shape} and the image {tuple(shape[:3])}; resample it to the image"
        )
    if not nifti.lies_on_grid(path, array.shape, own_affine, shape, affine):
        raise InvalidInput(f"the mask {name} lies elsewhere than the image (other affine); resample it to the image")
    mask = np.nan_to_num(array) != 0
    if (values := array[mask]).size and values.min() != values.max():
        note(f"{name} has values from {values.min():g} to {values.max():g}; all that are not 0 count as inside")
    if not mask.any():
        raise InvalidInput(f"the mask {name} is empty; choose one with voxels that are not zero")
    return np.ascontiguousarray(mask)


@reads_file
def read_dwi(
    path: str | Path,
    *,
    bval: str | Path | None = None,
    bvec: str | Path | None = None,
    volumes: Sequence[int] | None = None,
    b0_limit: float = B0_LIMIT,
) -> DiffusionScan:
    """Read a diffusion-weighted series with its gradient table.

    Parameters
    ----------
    path
        A NIfTI file, or an MRtrix image that carries its ``dw_scheme``.
    bval, bvec
        FSL's files; or, as ``bval`` alone, MRtrix's table of rows x, y, z, b. Without them `find_gradient_files`
        searches for them beside the image; the notes name those that are not called like it.
    volumes
        Those to read, counted from 0; all if left out. Volumes with a weighting but no direction, such as averages over
        directions, are left out in any case, with a note.
    b0_limit
        Volumes up to this b-value, s/mm^2, count as not diffusion weighted.

    Returns
    -------
    DiffusionScan
        Signals as stored (scaled to float32 or float64 where the header requires it); voxels with values
        that are not finite are 0 in all volumes. Directions in world axes.

    Raises
    ------
    InvalidInput
        If a file is missing, damaged, too large for the memory, or the parts do not fit each other.
    """
    if not 0 <= b0_limit < math.inf:
        raise InvalidInput(f"b0_limit is {b0_limit}; give a b-value in s/mm^2, 50 for instance")
    path = existing_file(path)
    is_mif = path.name.lower().endswith(MIF_SUFFIXES)
    image: Any = _real_mif(path) if is_mif else open_nifti(path)
    shape = image.data.shape if is_mif else image.shape
    count = math.prod(shape[3:])
    if len(shape) < 4 or count != max(shape[3:]):  # axes of length 1 do not count
        raise InvalidInput(
            f"{path.name} has shape {tuple(shape)}; a diffusion series has four dimensions (x, y, z, volume)"
        )
    affine = image.affine if is_mif else nifti_affine(image)
    rows = image.gradients if is_mif else None
    if rows is not None and (bval is not None or bvec is not None):
        raise InvalidInput(
            f"{path.name} carries its own gradient table; leave bval and bvec out, or put them in with "
            "mrconvert -fslgrad"
        )
    if rows is not None:
        table = tidy_gradients(rows[:, 3], rows[:, :3], b0_limit=b0_limit)
    else:
        table = _read_table(path, bval, bvec, count, affine, b0_limit)
    data = image.data if is_mif else nifti_array(image, path)
    kept = _kept(volumes, count, path.name) & table.usable
    read_with: dict[str, Any] = {"bval": bval and str(bval), "bvec": bvec and str(bvec)}
    read_with |= {"volumes": volumes and list(volumes), "b0_limit": b0_limit if b0_limit != B0_LIMIT else None}
    scan = DiffusionScan(
        data=data.reshape(*shape[:3], count)[..., slice(None) if kept.all() else kept],
        bvals=table.bvals[kept],
        directions=table.directions[kept],
        affine=affine,
        path=path,
        notes=table.notes,
        b0_limit=b0_limit,
        read_with={name: value for name, value in read_with.items() if value is not None},
    )
    if not scan.is_b0.any():
        note(
            f"no b-value is at most {b0_limit:g} s/mm^2, so no volume counts as b = 0; "
            f"b0_limit={scan.lowest_bval:g} takes the lowest shell"
        )
    if np.count_nonzero(data < 0) > MAX_NEGATIVE * data.size:
        note("more than 1 % of the signals are negative, as in images of the phase; signals are magnitudes")
    numbers = np.flatnonzero(kept)
    _note_useless(scan, numbers)
    return _without_lost_signals(scan, numbers)


def _note_useless(scan: DiffusionScan, numbers: Array) -> None:
    """Note volumes without a signal, which have these numbers in the file, and directions that leave tensors open."""
    empty = np.flatnonzero(~scan.data.any(axis=(0, 1, 2)))
    if len(empty) == len(scan.bvals):
        note("all of its signals are 0; check the file")
    elif len(empty):
        note(f"{volumes_have(numbers[empty])} no signal but 0; leave them out with volumes=")
    weighted = scan.directions[~scan.is_b0]
    spread = np.linalg.svd(weighted, compute_uv=False) if len(weighted) else np.ones(3)
    axes = np.count_nonzero(spread > _MIN_SPREAD * spread[0])
    if axes < 3:
        where = "in one plane" if axes == 2 else "on one line"
        note(f"the directions of its {len(weighted)} weighted volumes lie {where}, which determines no tensor")


def find_gradient_files(path: str | Path) -> tuple[Path | None, Path | None]:
    """Return the bval and bvec files that belong to an image by their names, each None if there is none.

    They are searched for, for ``dwi.nii.gz``, under ``dwi.bval``, ``dwi.bvals``, ``dwi.nii.gz.bval``, ``dwi_bval``,
    also with ``.txt``; bvec likewise, and as ``dwi.eddy_rotated_bvecs``; then as MRtrix's table ``dwi.b`` or
    ``dwi.grad``, which is both of them; then under the names that BIDS lets an image inherit (``sub-01_dwi.bval``, or
    ``dwi.bval`` in a folder above, for ``sub-01_run-1_dwi.nii.gz``); and at last as ``bvals``, ``bval``, also with
    ``.txt``, which hold for the whole folder. Both are of one of these kinds.
    """
    *named, shared = _candidates(Path(path))
    kinds = named if any(bvals or bvecs for bvals, bvecs in named) else [shared]
    bvals, bvecs = next((kind for kind in kinds if all(kind)), kinds[-1])
    return next(iter(bvals), None), next(iter(bvecs), None)


def has_own_table(path: str | Path) -> bool:
    """Return whether the table of an image is its own by its name, or in it, and not one that a folder shares."""
    path = Path(path)
    bval, _ = find_gradient_files(path)
    return bval is None or bval.name.startswith(stem_of(path))


def _read_table(
    path: Path, bval: str | Path | None, bvec: str | Path | None, count: int, affine: Affine, b0_limit: float
) -> Gradients:
    """The table that is given, or lies beside an image; one without the image's name is noted, and others that fit."""

    def read(bval: Path, bvec: Path) -> Gradients:
        if bval == bvec or bval.suffix.lower() in _MRTRIX_TABLES:
            return read_mrtrix_gradients(bval, count, b0_limit=b0_limit)
        return read_fsl_gradients(bval, bvec, count, affine, b0_limit=b0_limit)

    if bval is not None and (bvec is not None or Path(bval).suffix.lower() in _MRTRIX_TABLES):
        return read(Path(bval), Path(bvec or bval))
    found = find_gradient_files(path)
    bval_path = found[0] if bval is None else Path(bval)
    bvec_path = found[1] if bvec is None else Path(bvec)
    if bval_path is None or bvec_path is None:
        kind = "bval" if bval_path is None else "bvec"
        raise InvalidInput(
            f"no {kind} file was found beside {path.name} (tried {stem_of(path)}.{kind} and others); put it there or "
            f"give {kind}="
        )
    table = read(bval_path, bvec_path)
    names = [one.name for one, given in ((bval_path, bval), (bvec_path, bvec)) if given is None]
    if not all(name.startswith(stem_of(path)) for name in names):
        note(f"the gradient table is that of the folder: {' and '.join(names)}")
    others = set[str]()
    for pair in _equally_near(path, bval_path) if bval is None and bvec is None else ():
        with suppress(InvalidInput):  # those that do not fit
            if not _are_equal(read(*pair), table):
                others |= {one.name for one in pair} - set(names)
    if others:
        note(f"the gradient table is that of {' and '.join(dict.fromkeys(names))}; {', '.join(sorted(others))} differs")
    return table


def _equally_near(path: Path, bval: Path) -> list[tuple[Path, Path]]:
    """Pairs of files that belong to an image as much as the one with this file of b-values."""
    own, mrtrix, *_, shared = _candidates(path)
    kinds = (own, mrtrix) if bval in own[0] + mrtrix[0] else (shared,) if bval in shared[0] else ()
    return [pair for bvals, bvecs in kinds for pair in product(bvals, bvecs)]


def _are_equal(one: Gradients, other: Gradients) -> bool:
    return np.allclose(one.bvals, other.bvals) and np.allclose(one.directions, other.directions, atol=1e-4)


def _kept(volumes: Sequence[int] | None, count: int, name: str) -> npt.NDArray[np.bool_]:
    """Which volumes of a scan are wanted."""
    if volumes is None:
        return np.ones(count, bool)
    if any(isinstance(number, bool) or not isinstance(number, int | np.integer) for number in volumes):
        raise InvalidInput(f"volumes are whole numbers from 0 on; these are {str(list(volumes))[:80]}")
    if not len(volumes) or (beyond := [number for number in volumes if not 0 <= number < count]):
        what = f"no volume {beyond[0]}" if len(volumes) else "to be given volumes to read"
        raise InvalidInput(f"{name} has {count} volumes and {what}; give numbers from 0 to {count - 1}")
    return np.isin(np.arange(count), volumes)


def _without_lost_signals(scan: DiffusionScan, numbers: Array) -> DiffusionScan:
    """Set voxels with a signal that is not finite to 0 in all volumes, with a note of how many."""
    if scan.data.dtype.kind != "f" or np.isfinite(scan.data).all():
        return scan
    whole = np.isfinite(scan.data).any(axis=(0, 1, 2))
    if not whole.all() and whole.any():
        text = f"volumes without a finite signal were left out: {', '.join(map(str, numbers[~whole]))}"
        parts: dict[str, Any] = {
            "data": scan.data[..., whole],
            "bvals": scan.bvals[whole],
            "directions": scan.directions[whole],
        }
        scan = dataclasses.replace(scan, **parts, notes=(*scan.notes, text))
        if np.isfinite(scan.data).all():
            return scan
    lost = np.asarray(~np.isfinite(scan.data).all(axis=3))
    data = np.where(lost[..., np.newaxis], scan.data.dtype.type(0), scan.data)
    notes = (*scan.notes, f"voxels with signals that are not finite were set to 0 in all volumes: {lost.sum():,}")
    return dataclasses.replace(scan, data=data, notes=notes)


def _candidates(path: Path) -> list[tuple[list[Path], list[Path]]]:
    """The files of b-values and of directions that are there, by kind: the image's, MRtrix's, BIDS's, the folder's."""
    stem, kinds = stem_of(path), ("bval", "bvec")
    endings = [f"{stem}.{{}}", f"{stem}.{{}}s", f"{path.name}.{{}}", f"{path.name}.{{}}s"]
    endings += [f"{stem}_{{}}", f"{stem}_{{}}s", f"{stem}_{{}}.txt", f"{stem}_{{}}s.txt"]
    own = [[path.parent / name.format(case) for name in endings for case in (kind, kind.upper())] for kind in kinds]
    own[1].append(path.parent / f"{stem}.eddy_rotated_bvecs")
    tables = [path.parent / f"{stem}{suffix}" for suffix in _MRTRIX_TABLES]
    bids = [[*names, *inherited(path, f".{kind}")] for names, kind in zip(own, kinds, strict=True)]
    shared = [[path.parent / name.format(kind) for name in ("{}s", "{}", "{}s.txt", "{}.txt")] for kind in kinds]
    both = (own, (tables, tables), bids, shared)
    return [
        ([file for file in bvals if file.is_file()], [file for file in bvecs if file.is_file()])
        for bvals, bvecs in both
    ]
