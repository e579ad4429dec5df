"""Real even spherical harmonics: the bases of other programs, and what turns one into another.

Coefficients come in the order l = 0, 2, ..., lmax and in each m = -l, ..., l, so ``(lmax + 1)(lmax + 2) / 2`` in all;
the index of (l, m) is ``l (l + 1) / 2 + m``. Everywhere but in files they are those of MRtrix 3 in world axes: with the
complex harmonic Y (Condon-Shortley phase), ``sqrt2 Im Y_l^|m|`` for m < 0, ``Y_l^0``, and ``sqrt2 Re Y_l^m`` for m > 0.
"""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
# What the bases are called where they come from (checked against DIPY 1.12 and MRtrix's sh2amp).
BASES = {
    "mrtrix": "MRtrix 3; DIPY tournier07 with legacy=False",
    "mrtrix0.2": "MRtrix 0.2; DIPY tournier07 with legacy=True",
    "descoteaux_legacy": "DIPY's default, descoteaux07 with legacy=True",
    "descoteaux": "DIPY descoteaux07 with legacy=False",
}
LARGEST_LMAX = 16
_GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))


def coefficient_count(lmax: int) -> int:
    """Number of coefficients up to an even order."""
    return (lmax + 1) * (lmax + 2) // 2


def lmax_of(count: int) -> int:
    """Order of a number of coefficients; InvalidInput if no even order has so many."""
    for lmax in range(0, LARGEST_LMAX + 1, 2):
        if coefficient_count(lmax) == count:
            return lmax
    sizes = ", ".join(str(coefficient_count(lmax)) for lmax in range(0, LARGEST_LMAX + 1, 2))
    raise InvalidInput(f"{count} volumes are no set of even spherical harmonics, which has one of {sizes}")


def lmax_within(count: int) -> int:
    """Largest even order that has no more than ``count`` coefficients, at most `LARGEST_LMAX`."""
    return max(lmax for lmax in range(0, LARGEST_LMAX + 1, 2) if lmax == 0 or coefficient_count(lmax) <= count)


def orders(lmax: int) -> npt.NDArray[np.int64]:
    """Rows (l, m) of every coefficient, shape (N, 2)."""
    return np.array([(order, m) for order in range(0, lmax + 1, 2) for m in range(-order, order + 1)])


def harmonics(directions: npt.ArrayLike, lmax: int, basis: str = "mrtrix") -> Floats:
    """Values of every harmonic in some directions.

    Parameters
    ----------
    directions
        Shape (K, 3), of any length but zero.
    lmax
        Largest order, even.
    basis
        One of `BASES`.

    Returns
    -------
    ndarray
        Shape (K, N): ``harmonics(directions, lmax) @ coefficients`` are amplitudes.
    """
    from scipy.special import sph_harm_y

    x, y, z = np.asarray(directions, np.float64).reshape(-1, 3).T
    polar, azimuth = np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)
    values = np.empty((len(x), coefficient_count(lmax)))
    for column, (order, m) in enumerate(orders(lmax)):
        complex_values = sph_harm_y(order, abs(m), polar, azimuth)
        values[:, column] = complex_values.imag if m < 0 else complex_values.real
        if m:
            values[:, column] *= np.sqrt(2.0)
    if basis == "mrtrix":
        return values
    source, factor = _as_mrtrix(lmax, basis)
    other = np.empty_like(values)
    other[:, source] = values * factor
    return other


def _as_mrtrix(lmax: int, basis: str) -> tuple[npt.NDArray[np.int64], Floats]:
    """For each coefficient of MRtrix 3: index of that in a basis which it is made of, and the factor."""
    if basis not in BASES:
        raise InvalidInput(f"the basis is {basis!r}; choose one of {', '.join(map(repr, BASES))}")
    order, m = orders(lmax).T
    index, factor = order * (order + 1) // 2 + m, np.ones(len(m))
    if basis == "mrtrix0.2":
        return index, np.where(m == 0, 1.0, np.sqrt(0.5))
    if basis.startswith("descoteaux"):
        index = order * (order + 1) // 2 - m
    if basis == "descoteaux":  # the cosines, which are those of m < 0 there, have the sign of an odd m
        factor = np.where((m > 0) & (m % 2 == 1), -1.0, 1.0)
    return index, factor


def to_mrtrix(coefficients: Array, basis: str) -> Array:
    """Coefficients (..., N) of another basis as those of MRtrix 3; InvalidInput for an unknown basis."""
    source, factor = _as_mrtrix(lmax_of(coefficients.shape[-1]), basis)
    return np.asarray(coefficients[..., source] * factor.astype(coefficients.dtype))


def from_mrtrix(coefficients: Array, basis: str) -> Array:
    """Coefficients (..., N) of MRtrix 3 as those of another basis; InvalidInput for an unknown basis."""
    source, factor = _as_mrtrix(lmax_of(coefficients.shape[-1]), basis)
    other = np.empty_like(coefficients)
    other[..., source] = coefficients / factor.astype(coefficients.dtype)
    return other


def convolution_factors(response: npt.ArrayLike) -> Floats:
    """Factors ``R_l = r_l sqrt(4 pi / (2 l + 1))`` of a zonal response ``r_0, r_2, ...`` (Tournier et al. 2007)."""
    zonal = np.asarray(response, np.float64)
    return np.asarray(zonal * np.sqrt(4.0 * np.pi / (4.0 * np.arange(zonal.shape[-1]) + 1.0)))


def half_sphere(count: int) -> Floats:
    """Unit vectors spread evenly over the upper half sphere (Fibonacci lattice), shape (count, 3)."""
    n = np.arange(count) + 0.5
    z, turn = 1.0 - n / count, _GOLDEN_ANGLE * n
    sine = np.sqrt(1.0 - z * z)
    return np.stack([sine * np.cos(turn), sine * np.sin(turn), z], axis=1)


@functools.lru_cache(maxsize=8)
def constraint_rows(count: int, lmax: int) -> Floats:
    """Harmonics in directions spread over the half sphere, in which a deconvolution looks for negative amplitudes.

    Shape (count, N), read-only, since it is kept for the next call.
    """
    rows = harmonics(half_sphere(count), lmax)
    rows.flags.writeable = False
    return rows


def paired(coefficients: Array) -> Array:
    """Coefficients (..., N) of MRtrix 3 by m, then by even l >= m, in pairs (f_lm, f_l-m), shape (..., P).

    It is the order in which compiled functions read them; for m = 0 the second one of a pair is zero.
    """
    table = orders(lmax_of(coefficients.shape[-1]))
    place = {(int(order), int(m)): n for n, (order, m) in enumerate(table)}
    lmax = int(table[-1, 0])
    pairs = [(order, m) for m in range(lmax + 1) for order in range(0, lmax + 1, 2) if order >= m]
    out = np.zeros((*coefficients.shape[:-1], 2 * len(pairs)), coefficients.dtype)
    for n, (order, m) in enumerate(pairs):
        out[..., 2 * n] = coefficients[..., place[order, m]]
        if m:
            out[..., 2 * n + 1] = coefficients[..., place[order, -m]]
    return out


def pair_count(lmax: int) -> int:
    """Return the numbers that `paired` makes of the coefficients of an order."""
    return 2 * sum(lmax // 2 - (m + 1) // 2 + 1 for m in range(lmax + 1))


def paired_in_mask(coefficients: Array, mask: npt.NDArray[np.bool_], out: Array) -> None:
    """Write `paired` coefficients (X, Y, Z, N): zero outside the mask and where they are not finite, plane by plane."""
    for given, inside, pairs in zip(coefficients, mask, out, strict=True):
        fods = np.where(inside[..., np.newaxis], given, 0.0)
        pairs[...] = paired(np.nan_to_num(fods, posinf=0.0, neginf=0.0))


def recurrence(lmax: int) -> npt.NDArray[np.float64]:
    """Constants of the recurrence of Legendre functions by m, then by l >= m, shape (T, 2).

    The first of an m is (scale of l = m, 0), the others are (a, b).

    The scale has the factor sqrt 2 of m > 0 and the Condon-Shortley phase.
    """
    rows, scale = [], np.sqrt(0.25 / np.pi)
    for m in range(lmax + 1):
        if m:
            scale *= -np.sqrt((2 * m + 1) / (2 * m))
        rows.append((scale * (np.sqrt(2.0) if m else 1.0), 0.0))
        for order in range(m + 1, lmax + 1):
            a = np.sqrt((4 * order**2 - 1) / (order**2 - m**2))
            b = np.sqrt(((order - 1) ** 2 - m**2) / (4 * (order - 1) ** 2 - 1))
            rows.append((a, b))
    return np.array(rows)
