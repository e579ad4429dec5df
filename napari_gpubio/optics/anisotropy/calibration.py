"""Anisotropic scattering of fibers from diffusion MRI: light scatters less along myelinated axons than across them.

The fiber direction of a voxel is the first eigenvector of its diffusion tensor, its degree of anisotropy
f = min(1, FA / .7). Between f = 0, isotropic, and f = 1, coherent white matter, the scattering tensor is interpolated
linearly: M = m0 I + f (M_WM - m0 I).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings
from napari_gpubio.core.space import apply_affine, checked_affine, in_mask, same_grid
from napari_gpubio.core.tensor_components import (
    axes_of,
    components,
    fractional_anisotropy,
    matrices,
    positive_definite,
    rotate_tensors,
)
from napari_gpubio.optics.anisotropy.theory import uniaxial_diffusion_mm, uniaxial_scattering_per_mm
from napari_gpubio.optics.model import OUTSIDE, Domain, Medium
from napari_gpubio.optics.scattering_tensors import FREE, MIXTURE, NOT_RECIPROCAL, PRODUCT, check_model

Array = npt.NDArray[Any]
_PIECE_VOXELS = 1 << 16
_LEAST = 1e-3  # of f, below which a voxel counts as isotropic
_NEAREST = 0.5  # weight of neighbors with a tensor that an interpolated voxel needs
_STEPS = 129  # of f in tables
_SOURCE = "DePaoli et al. 2020, Neurophotonics 7:015011"


@dataclass(frozen=True, kw_only=True)
class FiberCalibration(Settings):
    """How much light scatters across and along the fibers of white matter.

    The defaults are the reduced scattering of mammalian spinal white matter [1]_, whose abstract gives 3.52 +- 0.1 and
    1.57 +- 0.03 1/mm and finds no such difference in gray matter. **It names no wavelength**, and a brain's white
    matter is less coherent than a spinal cord's: take them as an estimate. That f is FA / .7 is an assumption; no
    published calibration was found.

    Parameters
    ----------
    musp_across_per_mm, musp_along_per_mm
        Reduced scattering of *diffuse* light across and along coherent fibers, 1 / (3 D), 1/mm. The tensor that has it
        is computed for each scattering model; under ``product`` it is 4.73 across and 0.49 along, for the defaults.
    full_fa
        Fractional anisotropy from which fibers count as coherent.
    keep_mean
        Scale the tensors so that the mean diffusion coefficient of a voxel (the trace of D over 3) is that of its
        label's mu_s'; the two coefficients then count by their ratio only. Without, they are taken as they are, and
        m0 is the label's own scattering.
    source
        Where the numbers come from.

    References
    ----------
    .. [1] D. DePaoli et al., Neurophotonics 7:015011 (2020).

    Raises
    ------
    InvalidInput
        If a number is out of range.
    """

    musp_across_per_mm: float = param(
        3.52, "Across", "Reduced scattering across coherent fibers.", unit="1/mm", above=0.0, maximum=1e3, step=0.1
    )
    musp_along_per_mm: float = param(
        1.57, "Along", "Reduced scattering along coherent fibers.", unit="1/mm", above=0.0, maximum=1e3, step=0.1
    )
    full_fa: float = param(
        0.7, "Coherent from FA", "Fractional anisotropy of coherent fibers.", above=0.0, maximum=1.0, step=0.05
    )
    keep_mean: bool = param(
        True, "Keep the labels' mean", "Keep the mean diffusion coefficient of each label's reduced scattering."
    )
    source: str = param(_SOURCE, "Source", "Where the numbers come from.", compare=False, advanced=True)


class FiberMap(NamedTuple):
    """Fibers on the grid of a domain.

    Parameters
    ----------
    direction
        Unit vectors along the fibers, world axes, shape (X, Y, Z, 3); 0 without a tensor.
    fa
        Fractional anisotropy, shape (X, Y, Z); 0 without a tensor.
    """

    direction: npt.NDArray[np.float32]
    fa: npt.NDArray[np.float32]


def with_fibers(
    domain: Domain,
    tensors: Array,
    affine: npt.ArrayLike,
    *,
    axes: str = "world",
    labels: Iterable[int] | None = None,
    calibration: FiberCalibration | None = None,
    model: str = PRODUCT,
) -> Domain:
    """Return a domain whose scattering follows the fibers of a diffusion MRI.

    Parameters
    ----------
    domain
        Tissue with optical properties.
    tensors
        Diffusion tensors, shape (X', Y', Z', 6) (xx, yy, zz, xy, xz, yz) or (X', Y', Z', 3, 3), in any unit; zeros or
        NaN where there is none. On another grid they are interpolated (the mean of their logarithms).
    affine
        Voxel to world, mm, of the tensors.
    axes
        Axes that the components refer to: ``"world"``, ``"voxel"`` (the tensors' own grid) or ``"fsl"``.
    labels
        Labels that become anisotropic; all by default. Others, and voxels without a tensor, scatter as before.
    calibration
        How anisotropic coherent fibers are; see `FiberCalibration`.
    model
        ``product``, which is reciprocal, or ``free``, as in other programs; see
        `napari_gpubio.optics.scattering_tensors`.

    Raises
    ------
    InvalidInput
        If tensors are of another shape, not positive definite, or nowhere in the chosen tissue; if a chosen label does
        not occur or has tensors that are not finite; or if no scattering tensor has the calibration's ratio.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import optics
    >>> head = optics.phantom.load_head_phantom()
    >>> tensors = np.zeros((*head.shape, 6)) + [1.7e-3, 0.3e-3, 0.3e-3, 0.0, 0.0, 0.0]  # fibers along x
    >>> fibrous = with_fibers(head, tensors, head.affine, labels=[head.labels_present[-1]])
    >>> fibrous.mus_tensor_per_mm.shape == (*head.shape, 6)
    True
    """
    chosen = None if labels is None else _checked_labels(domain, labels)
    fibers = fiber_map(domain, tensors, affine, axes=axes, labels=chosen)
    return with_fiber_map(domain, fibers, labels=chosen, calibration=calibration, model=model)


def fiber_map(
    domain: Domain,
    tensors: Array,
    affine: npt.ArrayLike,
    *,
    axes: str = "world",
    labels: Iterable[int] | None = None,
) -> FiberMap:
    """Return the fibers of diffusion tensors on the grid of a domain; the parameters are those of `with_fibers`.

    It takes the labels' places but none of their optical properties, so it can be kept while these change.

    Raises
    ------
    InvalidInput
        As of `with_fibers`.
    """
    own = checked_affine(affine)
    tissue = domain.labels != OUTSIDE if labels is None else np.isin(domain.labels, list(labels))
    given, present = _checked_tensors(tensors, axes, own, tissue, domain.affine)
    direction, fa = np.zeros((*domain.shape, 3), np.float32), np.zeros(domain.shape, np.float32)
    if same_grid(given.shape, own, domain.shape, domain.affine):
        voxels = np.flatnonzero(tissue & present)
        if labels is not None:
            _refuse_not_finite(np.asarray(tensors), tissue)
        values = given.reshape(-1, 6)[voxels]
        is_log = False
    else:
        voxels, values = _interpolated(domain, np.flatnonzero(tissue), given, present, own)
        is_log = True
    if not voxels.size:
        raise InvalidInput(
            f"none of the {np.count_nonzero(tissue):,} tissue voxels {'of the chosen labels ' * (labels is not None)}"
            f"has a diffusion tensor: the tensors lie in {_box_text(present, own)}, the tissue in "
            f"{_box_text(tissue, domain.affine)}; check that both belong to the same person and space"
        )
    for first in range(0, len(voxels), _PIECE_VOXELS):
        part = slice(first, first + _PIECE_VOXELS)
        eigenvalues, vectors = np.linalg.eigh(matrices(values[part]))
        fa.reshape(-1)[voxels[part]] = fractional_anisotropy(np.exp(eigenvalues) if is_log else eigenvalues)
        direction.reshape(-1, 3)[voxels[part]] = vectors[:, :, 2]
    return FiberMap(direction, fa)


def with_fiber_map(
    domain: Domain,
    fibers: FiberMap,
    *,
    labels: Iterable[int] | None = None,
    calibration: FiberCalibration | None = None,
    model: str = PRODUCT,
) -> Domain:
    """Return a domain whose scattering follows fibers on its grid; the other parameters are those of `with_fibers`.

    Raises
    ------
    InvalidInput
        If the grids differ, a chosen label does not occur, the domain has tensors of another model already, or no
        scattering tensor has the calibration's ratio.
    """
    check_model(model)
    if model == MIXTURE:
        raise InvalidInput(
            "the model 'mixture' cannot be calibrated by diffusion MRI, because it washes the anisotropy of diffuse "
            "light out; choose 'product', or give tensors to Domain.with_tensors"
        )
    if fibers.fa.shape != domain.shape:
        raise InvalidInput(f"the fibers have shape {fibers.fa.shape} and the labels {domain.shape}; make them the same")
    chosen, calibration = _checked_labels(domain, labels), calibration or FiberCalibration()
    if domain.is_anisotropic and domain.scattering_model != model:
        raise InvalidInput(
            f"the domain has tensors of the model {domain.scattering_model!r} already, and {model!r} is chosen; choose "
            "the same, or take them out with Domain.with_tensors(None)"
        )
    coherence = np.minimum(1.0, fibers.fa / np.float32(calibration.full_fa))
    before = domain.mus_tensor_per_mm
    tensors = np.zeros((*domain.shape, 6), np.float32) if before is None else before.copy()
    for label in chosen:
        tensors[domain.labels == label] = 0.0
        medium = domain.medium(label)
        if medium.musp_per_mm > 0:
            voxels = np.nonzero((domain.labels == label) & (coherence > _LEAST))
            tensors[voxels] = _tensors(fibers.direction[voxels], coherence[voxels], medium, calibration, model)
    fibrous = domain.with_tensors(tensors, model)
    object.__setattr__(fibrous, "notes", (*domain.notes, _note(fibrous, chosen, labels, calibration, model)))
    return fibrous


# -- the inside -------------------------------------------------------------------------------------------------------


def _checked_labels(domain: Domain, labels: Iterable[int] | None) -> Sequence[int]:
    """Labels that become anisotropic."""
    if labels is None:
        return domain.labels_present
    chosen = tuple(dict.fromkeys(int(label) for label in labels))
    if missing := [label for label in chosen if label not in domain.labels_present]:
        raise InvalidInput(
            f"label {missing[0]} does not occur; choose of {', '.join(map(str, domain.labels_present[:20]))}"
        )
    if not chosen:
        raise InvalidInput("no label is chosen for anisotropic scattering; give at least one, or None for all")
    return chosen


def _checked_tensors(
    tensors: Array,
    axes: str,
    affine: npt.NDArray[np.float64],
    tissue: npt.NDArray[np.bool_],
    tissue_affine: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Six components in world axes, zeros where there is no tensor, and where there is one.

    One that is not positive definite is refused in the tissue, and counts as none elsewhere: fits have them at the rim
    of the head.
    """
    given = np.array(tensors, np.float64)
    if given.ndim == 5 and given.shape[3:] == (3, 3):
        given = components((given + given.swapaxes(3, 4)) / 2)
    if given.ndim != 4 or given.shape[3] != 6:
        raise InvalidInput(
            f"the diffusion tensors have shape {np.shape(tensors)}; give (X, Y, Z, 6) (xx, yy, zz, xy, xz, yz) or "
            "(X, Y, Z, 3, 3)"
        )
    if axes not in ("world", "voxel", "fsl"):
        raise InvalidInput(f"axes is {axes!r}; choose 'world', 'voxel' or 'fsl'")
    present = np.isfinite(given).all(axis=3) & (given != 0).any(axis=3)
    given[~present] = 0.0
    wrong = present & ~positive_definite(given)
    if (inside := _lies_in(wrong, affine, tissue, tissue_affine)).any():
        _refuse_negative(given, present, inside)
    given[wrong], present[wrong] = 0.0, False
    return rotate_tensors(given, axes_of(axes, affine)), present


def _lies_in(
    chosen: npt.NDArray[np.bool_],
    affine: npt.NDArray[np.float64],
    tissue: npt.NDArray[np.bool_],
    tissue_affine: npt.NDArray[np.float64],
) -> npt.NDArray[np.bool_]:
    """Those of some voxels whose centers lie in the tissue, which may have another grid."""
    voxels = np.argwhere(chosen)
    places = np.rint(apply_affine(np.linalg.inv(tissue_affine) @ affine, voxels)).astype(np.int64)
    found = np.zeros(chosen.shape, np.bool_)
    found[tuple(voxels[in_mask(places, tissue)].T)] = True
    return found


def _refuse_negative(tensors: Array, present: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_]) -> None:
    voxel = tuple(int(i) for i in np.argwhere(wrong)[0])
    smallest = np.linalg.eigvalsh(matrices(tensors[voxel]))[0]
    raise InvalidInput(
        f"{np.count_nonzero(wrong):,} of {np.count_nonzero(present):,} diffusion tensors are not positive definite "
        f"(the first, in voxel {voxel}, has the eigenvalue {smallest:.3g}); repair them as the tensor fit does, or set "
        "them to 0 to have their voxels scatter by the label"
    )


def _refuse_not_finite(tensors: Array, chosen: npt.NDArray[np.bool_]) -> None:
    """Raise InvalidInput if tensors of labels that were chosen by the user are not finite."""
    wrong = chosen & ~np.isfinite(tensors).all(axis=tuple(range(3, tensors.ndim)))
    if wrong.any():
        voxel = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InvalidInput(
            f"{np.count_nonzero(wrong):,} voxels of the chosen labels have diffusion tensors that are not finite (the "
            f"first is {voxel}); set them to 0 to have these voxels scatter by the label"
        )


def _interpolated(
    domain: Domain, tissue: Array, tensors: Array, present: npt.NDArray[np.bool_], affine: npt.NDArray[np.float64]
) -> tuple[Array, Array]:
    """Voxels with a tensor, and its logarithm: the trilinear mean of those of the neighbors that have one."""
    from scipy.ndimage import map_coordinates

    logarithms = np.zeros(tensors.shape)
    rows, found = tensors[present], np.empty((np.count_nonzero(present), 6))
    for first in range(0, len(rows), _PIECE_VOXELS):
        part = slice(first, first + _PIECE_VOXELS)
        eigenvalues, vectors = np.linalg.eigh(matrices(rows[part]))
        found[part] = components((vectors * np.log(eigenvalues)[:, None, :]) @ vectors.transpose(0, 2, 1))
    logarithms[present] = found
    to_tensors = np.linalg.inv(affine) @ domain.affine
    voxels, values = [], []
    for first in range(0, len(tissue), _PIECE_VOXELS):
        some = tissue[first : first + _PIECE_VOXELS]
        places = apply_affine(to_tensors, np.stack(np.unravel_index(some, domain.shape), -1)).T
        weight = map_coordinates(present.astype(np.float64), places, order=1, mode="grid-constant")
        held = weight >= _NEAREST
        voxels.append(some[held])
        columns = [
            map_coordinates(logarithms[..., i], places[:, held], order=1, mode="grid-constant") for i in range(6)
        ]
        values.append(np.stack(columns, -1) / weight[held][:, None])
    return np.concatenate(voxels), np.concatenate(values)


def _tensors(direction: Array, coherence: Array, medium: Medium, calibration: FiberCalibration, model: str) -> Array:
    """Scattering tensors (N, 6), world axes, 1/mm, of voxels of a label."""
    across, along = scattering_of(coherence, medium, calibration, model)
    outer = components(direction[:, :, None].astype(np.float64) * direction[:, None, :])
    return across[:, None] * [1, 1, 1, 0, 0, 0] + (along - across)[:, None] * outer


def scattering_of(
    coherence: npt.ArrayLike, medium: Medium, calibration: FiberCalibration, model: str = PRODUCT
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scattering across and along fibers, 1/mm: eigenvalues of M for the degree of anisotropy f, from 0 to 1.

    Raises
    ------
    InvalidInput
        If no scattering tensor has the calibration's ratio under the model.
    """
    g = 0.0 if model == PRODUCT else medium.g
    white = np.array(
        uniaxial_scattering_per_mm(calibration.musp_across_per_mm, calibration.musp_along_per_mm, model, g)
    )
    f = np.linspace(0.0, 1.0, _STEPS)[:, None]
    if calibration.keep_mean:
        mean = (2 * white[0] + white[1]) / 3
        table = mean + f * (white - mean)
        d_across, d_along = uniaxial_diffusion_mm(table[:, 0], table[:, 1], model, g)
        table = table * (medium.musp_per_mm * (2 * d_across + d_along))[:, None]
    else:
        own = medium.musp_per_mm if model == PRODUCT else medium.mus_per_mm
        table = own + f * (white - own)
    across, along = (np.interp(np.asarray(coherence), f[:, 0], column) for column in table.T)
    return across, along


def _note(
    domain: Domain, chosen: Sequence[int], labels: Iterable[int] | None, calibration: FiberCalibration, model: str
) -> str:
    """What was made anisotropic, for results and files."""
    count = 0 if domain.mus_tensor_per_mm is None else np.count_nonzero(domain.mus_tensor_per_mm[..., 0])
    where = "" if labels is None else f" of label {', '.join(map(str, chosen))}"
    kept = ", scaled to each label's mean diffusion coefficient" if calibration.keep_mean else ""
    published = FiberCalibration()
    own = calibration.source != _SOURCE or (calibration.musp_across_per_mm, calibration.musp_along_per_mm) == (
        published.musp_across_per_mm, published.musp_along_per_mm,
    )  # fmt: skip
    source = calibration.source if own else "given by the user"
    unknown = "; no wavelength is given there" if source == _SOURCE else ""
    warned = f"; {NOT_RECIPROCAL}" if model == FREE else ""
    return (
        f"Scattering follows the fibers in {count:,} voxels{where}: model {model!r}, reduced scattering "
        f"{calibration.musp_across_per_mm:g} 1/mm across and {calibration.musp_along_per_mm:g} 1/mm along coherent "
        f"fibers (FA {calibration.full_fa:g} and more; {source}{unknown}){kept}{warned}."
    )


def _box_text(mask: npt.NDArray[np.bool_], affine: npt.NDArray[np.float64]) -> str:
    """Where the voxels of a mask are, world mm."""
    if not mask.any():
        return "no voxel at all"
    found = [np.flatnonzero(mask.any(axis=tuple({0, 1, 2} - {axis}))) for axis in range(3)]
    corners = np.stack(np.meshgrid(*[(f[0], f[-1]) for f in found], indexing="ij"), -1).reshape(-1, 3)
    world = apply_affine(affine, corners)
    return " x ".join(
        f"{short_number(low, 3)} to {short_number(high, 3)}"
        for low, high in zip(world.min(axis=0), world.max(axis=0), strict=True)
    ) + " mm"  # fmt: skip
