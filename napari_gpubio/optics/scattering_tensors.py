"""Scattering that depends on direction: a tensor M in each voxel, and what photons make of it.

The scattering coefficient along a unit vector s is ``s . M . s`` (Heino and Arridge 2003, Phys. Rev. E 68:031908;
Heiskala et al. 2005, Appl. Opt. 44:2049). Where a photon goes next is the scattering model's:

``product``
    M is reduced, as is mu_s'. Rate mu(s) = s.M.s, next direction with a density in proportion to mu(s'). The rate from
    s to s' is the rate from s' to s, so light is reciprocal: source and detector may change places, and isotropic
    radiance stays isotropic.
``free``
    Henyey and Greenstein's phase function with the label's g about the incoming direction, whatever M is: what other
    programs do. The rate from s to s' is not that from s' to s: **light is not reciprocal**, and in equilibrium the
    radiance is 1 / mu(s), brighter along the fibers. For comparisons with those programs.
``mixture``
    Reciprocal for any g: rate p(s.s') (mu(s) + mu(s')) / 2 with that phase function p. A high g washes the anisotropy
    of diffuse light out.

Tensors are in 1/mm, shape (X, Y, Z, 6): xx, yy, zz, xy, xz, yz in **world** axes. A row of zeros, or of NaN, stands for
no tensor: there light scatters by the label. So it does where M is a multiple of the identity and agrees with the label
(mu_s' with ``product``, mu_s else), to the last bit.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import components

Array = npt.NDArray[Any]
PRODUCT, FREE, MIXTURE = "product", "free", "mixture"
SCATTERING_MODELS = (PRODUCT, FREE, MIXTURE)
NOT_RECIPROCAL = (
    "the scattering model 'free' is not reciprocal: light from a source to a detector is not that from the detector to "
    "the source"
)
MAX_RATIO = 1000.0  # of a tensor's eigenvalues, for the sake of single precision and of drawing by rejection


def checked_tensors(values: Array, labels: Array) -> npt.NDArray[np.float32]:
    """Return scattering tensors (X, Y, Z, 6) or (X, Y, Z, 3, 3) in six components, zeros where there is none.

    Raises
    ------
    InvalidInput
        If the shape does not fit the labels, or a tensor in tissue is not finite, symmetric, and positive definite.
    """
    given = np.asarray(values)
    full = given.ndim == 5
    if given.shape[:3] != labels.shape or given.shape[3:] not in ((6,), (3, 3)):
        wanted = (*labels.shape, 6)
        raise InvalidInput(
            f"the scattering tensors have shape {given.shape} and the labels {labels.shape}; give {wanted} (xx, yy, "
            "zz, xy, xz, yz) on the same grid, or make them with optics.anisotropy.with_fibers, which resamples"
        )
    inside = np.flatnonzero(labels)
    rows = given.reshape(labels.size, -1)[inside].astype(np.float64)
    present = ~((rows == 0).all(axis=1) | np.isnan(rows).all(axis=1))
    places, rows = inside[present], rows[present]
    _refuse(~np.isfinite(rows).all(axis=1), rows, places, labels.shape, "values that are not finite", "set them to 0")
    if full:
        square = rows.reshape(-1, 3, 3)
        skew = np.abs(square - square.transpose(0, 2, 1)).max(axis=(1, 2))
        is_skew = skew > 1e-4 * np.abs(rows).max(axis=1)
        _refuse(is_skew, rows, places, labels.shape, "matrices that are not symmetric", "symmetrize them")
        rows = components(square)
    kept = rows.astype(np.float32)
    low, high = extreme_eigenvalues(kept)
    _refuse(
        low <= 0, rows, places, labels.shape, "an eigenvalue that is not positive",
        "raise it, or set those tensors to 0 (light then scatters by the label)",
    )  # fmt: skip
    _refuse(
        high > MAX_RATIO * low, rows, places, labels.shape, f"eigenvalues more than {MAX_RATIO:g} times apart",
        "raise the smallest",
    )  # fmt: skip
    tensors = np.zeros((labels.size, 6), np.float32)
    tensors[places] = kept
    return tensors.reshape(*labels.shape, 6)


def extreme_eigenvalues(tensors: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Smallest and largest eigenvalue of tensors (N, 6), by the trigonometric solution of the characteristic cubic.

    To about 1e-8 of the largest (Smith 1961, Communications of the ACM 4:168).
    """
    values = np.asarray(tensors, np.float64)
    mean = values[:, :3].mean(axis=1, keepdims=True)
    apart = values - mean * [1, 1, 1, 0, 0, 0]
    size = np.sqrt((apart**2 @ [1, 1, 1, 2, 2, 2]) / 6)
    xx, yy, zz, xy, xz, yz = apart.T
    half_determinant = (xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = np.where(size > 0, half_determinant / size**3, 1.0)
    angle = np.arccos(np.clip(cosine, -1.0, 1.0)) / 3
    low, high = (mean[:, 0] + 2 * size * np.cos(angle + turn) for turn in (2 * np.pi / 3, 0.0))
    return low, high


def check_model(model: str) -> None:
    """Raise InvalidInput unless it is one of `SCATTERING_MODELS`."""
    if model not in SCATTERING_MODELS:
        raise InvalidInput(
            f"the scattering model is {model!r}; choose one of {', '.join(map(repr, SCATTERING_MODELS))}"
        )


def _refuse(
    wrong: npt.NDArray[np.bool_], rows: Array, places: Array, shape: tuple[int, ...], what: str, remedy: str
) -> None:
    """Raise InvalidInput if a tensor is wrong: how many are, and which is the first."""
    if not wrong.any():
        return
    first = int(np.argmax(wrong))
    voxel = tuple(int(i) for i in np.unravel_index(int(places[first]), shape))
    shown = ", ".join(f"{value:.4g}" for value in rows[first])
    raise InvalidInput(
        f"{np.count_nonzero(wrong):,} of {len(rows):,} scattering tensors have {what} (the first in voxel {voxel}: "
        f"{shown} 1/mm); {remedy}"
    )
