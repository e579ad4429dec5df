"""Fiber orientation distributions (FODs) of MRtrix and DIPY, in and out.

An image (X, Y, Z, N) holds even spherical harmonics, but neither NIfTI nor ``.mif`` says of which basis they are; see
`napari_gpubio.diffusion.fods.harmonics.BASES`. So a JSON file beside the image says it, where one of ours does.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import check_folder, existing_file, write_text
from napari_gpubio.core.mif_writer import MIF_WRITE_SUFFIXES, write_mif
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, save_nifti, stem_of
from napari_gpubio.diffusion.fods.frames import USUAL_FRAMES, checked_frame, frame_note, to_world
from napari_gpubio.diffusion.fods.harmonics import (
    BASES,
    from_mrtrix,
    half_sphere,
    harmonics,
    lmax_of,
    orders,
    to_mrtrix,
)
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.io.dwi import read_array, read_mask
from napari_gpubio.diffusion.io.orientation_sidecars import basis_in, facts_beside, frame_in, json_facts
from napari_gpubio.diffusion.io.pam5 import PAM5_SUFFIX, read_pam5_harmonics
from napari_gpubio.diffusion.io.peak_images import note_amplitudes

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
_OLD_RATIO = (
    5.0 / 3.0,
    7.0 / 3.0,
)  # of powers, as in shbasis: 1 in an orthonormal basis, 2 in the old one
_MIN_VOXELS = 100  # for the ratio to say anything
_DIRECTIONS, _MAX_ROWS = 300, 3000  # that are tried
_LOWEST = 0.2  # how far, over their maximum, distributions of 60 degree crossings are below 0 at lmax 4
_CLEARLY = 0.1
_MADE = {"deconvolution": dict, "responses": list, "normalization": dict}  # parameters that the JSON file keeps
_ENDINGS = (*NIFTI_SUFFIXES, *MIF_WRITE_SUFFIXES)
_PROGRAMS = {"world": "MRtrix has them", "fsl": "DIPY has them", "voxel": "the file has them"}


@reads_file
def read_fods(
    path: str | Path, *, basis: str = "auto", frame: str = "auto", mask: Array | str | Path | None = None
) -> FodField:
    """Read the fiber orientation distributions of MRtrix, DIPY or this package.

    Parameters
    ----------
    path
        An image (X, Y, Z, N) of even spherical harmonics: ``.mif``, ``.mif.gz``, ``.mih``, ``.nii``, ``.nii.gz``; or a
        ``.pam5`` file of DIPY with ``shm_coeff``.
    basis
        A name of `napari_gpubio.diffusion.fods.harmonics.BASES`, or ``"auto"``: what the JSON file beside the image, or
        the matrix ``B`` of a ``.pam5`` file, says; else MRtrix 0.2 if the powers show it clearly; else the one in which
        alone the distributions are nowhere far below 0; else MRtrix 3, which a note says to be assumed.
    frame
        Axes that the harmonics refer to: ``"world"``, ``"fsl"`` (those of the bvec file), ``"voxel"``, or ``"auto"``:
        what the JSON file says, else the world's for MRtrix's bases, and the bvec file's for DIPY's bases and files.
    mask
        Voxels to use, an array of shape (X, Y, Z) or a file. Without one: every distribution that is not zero.

    Returns
    -------
    FodField
        World axes, MRtrix 3; zero where a value is not finite, which the notes count.

    Raises
    ------
    InvalidInput
        If the file cannot be read, N is no number of even harmonics, the basis or the frame is unknown, or no voxel is
        left.
    """
    _check_basis(basis, ("auto", *BASES))
    checked_frame(frame, "world")
    path = existing_file(path)
    is_pam5, made = path.name.lower().endswith(PAM5_SUFFIX), dict[str, Any]()
    if is_pam5:
        data, affine, own_basis = read_pam5_harmonics(path)
        said = {} if own_basis is None else {"basis": own_basis}
    else:
        data, affine = read_array(path)
        said, made = _sidecar(path)
    data = _checked(data, path.name)
    inside, mask_notes = _inside(data, affine, mask, path.name)
    rows = data[inside].astype(np.result_type(data.dtype, np.float32))
    chosen, basis_note = _basis(basis, said.get("basis"), rows, is_pam5=is_pam5)
    own = checked_frame(frame, said.get("frame", "fsl" if is_pam5 else USUAL_FRAMES[chosen]))
    source = "as requested" if frame != "auto" else "as the JSON file says" if "frame" in said else ""
    lmax = lmax_of(data.shape[3])
    rows = to_mrtrix(rows, chosen) if own == "world" else to_world(rows, lmax, chosen, own, affine)
    note_amplitudes(rows[:, 0])
    coefficients = np.zeros(data.shape, rows.dtype)
    coefficients[inside] = rows
    return FodField(
        coefficients=coefficients,
        mask=inside,
        affine=affine,
        path=path,
        notes=(
            basis_note,
            frame_note("harmonics", own, _PROGRAMS.get(own, ""), source=source),
            *mask_notes,
        ),
        parameters={**made, "basis": chosen, "frame": own, "lmax": lmax},
    )


def write_fods(path: str | Path, fods: FodField, *, basis: str = "mrtrix") -> None:
    """Write distributions as an image, in world axes, and beside it a JSON file that says so.

    Parameters
    ----------
    path
        Ends in ``.nii``, ``.nii.gz``, ``.mif`` or ``.mif.gz``; the JSON file has the same name but for the ending.
        Older files are replaced only when the new ones are complete.
    fods
        The distributions.
    basis
        Of `napari_gpubio.diffusion.fods.harmonics.BASES`; MRtrix opens ``"mrtrix"``. DIPY takes harmonics to be in the
        axes of the bvec file, which are not the world's.

    Raises
    ------
    InvalidInput
        If the basis or the ending is not known, the folder does not exist, or the JSON file would replace another one.
    """
    _check_basis(basis, tuple(BASES))
    path = Path(path)
    check_fod_output(path)
    values = from_mrtrix(fods.coefficients, basis)
    if path.name.lower().endswith(MIF_WRITE_SUFFIXES):
        write_mif(path, values, fods.affine)
    else:
        import nibabel

        kind = np.float64 if values.dtype == np.float64 else np.float32
        description = f"even spherical harmonics, {basis} basis, world axes"
        save_nifti(path, nibabel.Nifti1Image(values.astype(kind, copy=False), fods.affine), description)
    facts = {
        "basis": basis,
        "lmax": fods.lmax,
        "frame": "world",
        **{name: fods.parameters[name] for name in _MADE if name in fods.parameters},
        "software": f"napari-gpubio {__version__}",
    }
    write_text(_json_path(path), json.dumps(facts, indent=2) + "\n")


def check_fod_output(path: Path) -> Path:
    """Return the JSON file beside a path that FODs can be written to; it must be none of another kind.

    InvalidInput if its ending is unknown, its folder is missing, or the JSON file has no ``basis``, as that of a scan
    in BIDS.
    """
    if not path.name.lower().endswith(_ENDINGS):
        raise InvalidInput(f"{path.name} has no known ending; give it one of {', '.join(_ENDINGS)}")
    check_folder(path)
    beside = _json_path(path)
    if beside.is_file() and "basis" not in json_facts(beside):
        raise InvalidInput(
            f"{beside.name} is there, and it does not describe FODs; what is written with {path.name} would replace "
            "it: choose another name"
        )
    return beside


def _check_basis(basis: str, choices: tuple[str, ...]) -> None:
    if basis not in choices:
        raise InvalidInput(f"basis is {basis!r}; choose one of {', '.join(map(repr, choices))}")


def _json_path(path: Path) -> Path:
    return path.with_name(f"{stem_of(path)}.json")


def _sidecar(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """What the JSON file beside an image says of basis and frame, and of the deconvolution; else nothing."""
    facts = facts_beside(path)
    made = {key: facts[key] for key, kind in _MADE.items() if "basis" in facts and isinstance(facts.get(key), kind)}
    said = {"basis": basis_in(facts), "frame": frame_in(facts)}
    return {key: value for key, value in said.items() if value is not None}, made


def _checked(data: Array, name: str) -> Array:
    """Check that an array is a set of harmonics with directions, without further axes of length 1."""
    if data.ndim > 4 and data.size == np.prod(data.shape[:4]):
        data = data.reshape(data.shape[:4])
    if data.ndim != 4:
        raise InvalidInput(f"{name} has shape {data.shape}; FODs have four dimensions (x, y, z, coefficient)")
    if lmax_of(data.shape[3]) == 0:
        raise InvalidInput(f"{name} has one volume, which holds no directions; choose the image of the white matter")
    return data


def _inside(
    data: Array, affine: npt.NDArray[np.float64], mask: Array | str | Path | None, name: str
) -> tuple[Mask, tuple[str, ...]]:
    """Voxels that hold a distribution, and a note on those that are not finite."""
    finite = np.isfinite(data).all(axis=3)
    usable = finite & (data != 0).any(axis=3)
    chosen = np.ones(usable.shape, bool)
    if mask is not None:
        chosen = read_mask(mask, data.shape, affine) if isinstance(mask, str | Path) else np.asarray(mask) != 0
        if chosen.shape != usable.shape:
            raise InvalidInput(f"the mask has shape {chosen.shape} and the FODs {usable.shape}; they must be the same")
    if not (usable & chosen).any():
        raise InvalidInput(f"{name} has no FOD in the mask that is finite and not zero; check the file and the mask")
    lost = int(np.count_nonzero(chosen & ~finite))
    note = f"{lost} FODs have values that are not finite; they were set to 0 and lie outside of the mask"
    return usable & chosen, (note,) if lost else ()


def _basis(basis: str, said: str | None, rows: Array, *, is_pam5: bool) -> tuple[str, str]:
    """Return the basis and a note on how it was found."""
    if basis != "auto":
        note = f"basis {basis} ({BASES[basis]}), as requested"
        if basis != "mrtrix0.2" and _is_old(rows):
            note += "; but the powers of the harmonics are those of 'mrtrix0.2', which is probably right"
        return basis, note
    if said is not None:
        return said, f"basis {said} ({BASES[said]}), as the file says"
    if is_pam5:
        return "descoteaux_legacy", (
            "the file has no B, which would show the basis; DIPY's default, descoteaux_legacy, was assumed"
        )
    if _is_old(rows):
        return "mrtrix0.2", (
            "the powers of the harmonics are those of MRtrix 0.2, whose basis was taken; where this is wrong, choose "
            "the basis 'mrtrix'"
        )
    lowest = lowest_amplitudes(rows)
    best, second = sorted(lowest, key=lambda name: lowest[name])[:2]
    if lowest[best] < _LOWEST and lowest[second] - lowest[best] > _CLEARLY:
        return best, (
            f"the file does not say of which basis its harmonics are; {best} ({BASES[best]}) was taken, in which they "
            f"are least negative (by {100 * max(lowest[best], 0):.0f} % of their maximum, in {second} by "
            f"{100 * lowest[second]:.0f} %). Where directions disagree with the tensors', choose another one"
        )
    return "mrtrix", (
        "the file does not say of which basis its harmonics are; that of MRtrix 3 was assumed. Where directions "
        "disagree with the tensors', choose another one, for instance 'descoteaux_legacy', DIPY's default"
    )


def lowest_amplitudes(rows: Array) -> dict[str, float]:
    """How far functions on the sphere are below 0, in each basis of unit vectors that their coefficients may be of.

    A distribution is not negative but for noise and missing orders; read in another basis, which turns each of its
    harmonics by another angle, it is.

    Parameters
    ----------
    rows
        Finite coefficients (M, N). Those whose first one is not positive do not count.

    Returns
    -------
    shares
        By the name of the basis, the median of the lowest amplitude, sign reversed, over the highest; 1 without rows.
    """
    rows = rows[rows[:, 0] > 0]
    rows = rows[rows[:, 0] >= np.median(rows[:, 0])] if len(rows) else rows  # the others are of little but noise
    rows, directions = rows[:: max(1, len(rows) // _MAX_ROWS)].astype(np.float64), half_sphere(_DIRECTIONS)
    shares = dict.fromkeys((basis for basis in BASES if basis != "mrtrix0.2"), 1.0)
    for basis in shares if len(rows) else ():
        amplitudes = rows @ harmonics(directions, lmax_of(rows.shape[1]), basis).T
        shares[basis] = float(np.median(-amplitudes.min(axis=1) / amplitudes.max(axis=1)))
    return shares


def _is_old(rows: Array) -> bool:
    """Whether coefficients (M, N) are clearly of MRtrix 0.2, whose values for m != 0 are sqrt 2 times larger.

    Over many directions the mean power is then 2 times that of m = 0 in each order. As in MRtrix's ``shbasis``, l = 2
    is left out, since the fibers of a brain favor some directions, and a line through the others decides, at l = 0.
    """
    lmax = lmax_of(rows.shape[1])
    if lmax < 4 or len(rows) < _MIN_VOXELS:
        return False
    power = np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
    order, m = orders(lmax).T
    tested = np.arange(4, lmax + 1, 2)
    zonal = np.array([power[(order == each) & (m == 0)].sum() for each in tested])
    others = np.array([power[(order == each) & (m != 0)].sum() / (2 * each) for each in tested])
    if not (zonal > 0).all():
        return False
    ratios = others / zonal
    decisive = np.polyval(np.polyfit(tested, ratios, 1), 0.0) if len(tested) > 2 else ratios[0]
    least, most = _OLD_RATIO
    return bool(least < decisive < most and ((ratios > least) & (ratios < most)).all())
