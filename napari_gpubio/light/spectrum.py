"""Detected light at many wavelengths from the photons of one run.

How a photon travels depends on scattering, and not on absorption: at a wavelength l whose scattering is that of the run
(0), a detected photon that went L_m mm through medium m and has the weight w would have had the weight ::

    w_l = w exp(-sum_m (mua_l,m - mua_0,m) L_m)

Where scattering differs by one factor r in all media, a photon with n scattering events was as probable as r^n
exp(-sum_m (mus_l,m - mus_0,m) L_m) times its probability in the run. All of this is exact but for the noise, which
grows with the spread of these factors: an estimate is worth as many equal photons as ``effective_photons`` says.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.report import WARNING
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import separation_mm
from napari_gpubio.optics.detectors import DetectedPhotons, detector_names
from napari_gpubio.optics.estimates import Estimates
from napari_gpubio.optics.model import Medium

Floats = npt.NDArray[np.float64]
MIN_EFFECTIVE = 100.0  # photons; with fewer the standard error itself is not known well
_ALIKE_RELATIVE = 1e-6
_PHOTONS_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectedSpectrum(Tabular):
    """Light of D detectors at L wavelengths; shapes are (D, L), and (D, L, M) for the M labels.

    Parameters
    ----------
    wavelengths_nm
        Shape (L,).
    detectors, separation_mm, photons
        Name of each detector, its distance from the source, and how many photons it has detected.
    labels
        Labels of ``path_mm``.
    weight
        Detected weight per launched photon, and its standard error.
    path_mm, total_path_mm
        Mean path in each label and in all, weighted.
    dpf
        Mean path over separation, the differential pathlength factor.
    time_ns, time_sd_ns
        Mean time of flight, and the standard deviation of the times of flight.
    effective_photons
        (sum w)^2 / sum w^2: how many photons of equal weight would know the detected weight as well.
    largest_share
        Part of the detected weight that its heaviest photon has.
    warnings
        Sentences about what these numbers cannot be trusted with.
    """

    wavelengths_nm: Floats
    detectors: tuple[str, ...]
    separation_mm: Floats
    photons: npt.NDArray[np.int64]
    labels: tuple[int, ...]
    weight: Estimates
    path_mm: Estimates
    total_path_mm: Estimates
    dpf: Estimates
    time_ns: Estimates
    time_sd_ns: Estimates
    effective_photons: Floats
    largest_share: Floats
    warnings: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings, as notes are written."""
        return tuple(f"{WARNING}{one}" for one in self.warnings)

    @property
    def trusted(self) -> npt.NDArray[np.bool_]:
        """Where the weight is that of `MIN_EFFECTIVE` photons or more, shape (D, L)."""
        return np.asarray(self.effective_photons >= MIN_EFFECTIVE)

    def rows(self) -> Iterator[dict[str, float | str]]:
        """One row for each detector and wavelength, for a table; units are in the names."""
        columns = {
            "detected_weight": self.weight, "mean_path_mm": self.total_path_mm, "dpf": self.dpf,
            "time_ns": self.time_ns, "time_sd_ns": self.time_sd_ns,
        }  # fmt: skip
        for d, name in enumerate(self.detectors):
            for i, wavelength in enumerate(self.wavelengths_nm):
                row: dict[str, float | str] = {"detector": name, "wavelength_nm": float(wavelength)}
                row |= {"separation_mm": float(self.separation_mm[d]), "photons": int(self.photons[d])}
                row |= {"effective_photons": float(self.effective_photons[d, i])}
                for column, both in columns.items():
                    row |= {column: float(both.value[d, i]), f"{column}_error": float(both.error[d, i])}
                for m, label in enumerate(self.labels):
                    value, error = self.path_mm.value[d, i, m], self.path_mm.error[d, i, m]
                    row |= {f"path_{label}_mm": float(value), f"path_{label}_mm_error": float(error)}
                yield row


def spectrum(
    result: LightResult, media_by_wavelength: Mapping[float, Sequence[Medium]], *, keep_scattering: bool = False
) -> DetectedSpectrum:
    """Return what every detector would have detected at other wavelengths.

    Parameters
    ----------
    result
        A run with detectors. It should have the media of `spectrum_media`: the least absorption of every label, since
        photons on long paths get lost where absorption is strong, and cannot be brought back.
    media_by_wavelength
        The media at each wavelength (nm), one for every label of the run; see
        `napari_gpubio.optics.tissue.media_at_wavelengths`.
    keep_scattering
        Take the scattering, g and n of the run for all wavelengths. Without, those of the media count.

    Raises
    ------
    InvalidInput
        If the run has no detectors, absorption is given voxel by voxel, a label lacks a medium, n or g differ, or
        scattering differs otherwise than by one factor: how often a photon was scattered is known in all, not by label.

    Notes
    -----
    Only detected light: fluence at other wavelengths would take the path of every photon to every voxel.
    """
    if not media_by_wavelength:
        raise InvalidInput("no wavelength is given; give the media of at least one")
    launched = _launched(result)
    changes = [
        _change(result, media, keep_scattering=keep_scattering, where=f" at {wavelength:g} nm")
        for wavelength, media in media_by_wavelength.items()
    ]
    wavelengths = np.array(list(media_by_wavelength), np.float64)
    found = [_moments(result.detected.of(d), changes, launched) for d in range(len(result.detectors))]
    separation = np.array([separation_mm(result, detector) for detector in result.detectors])

    def stacked(name: str) -> Estimates:
        return Estimates(*(np.array(both) for both in zip(*(part[name] for part in found), strict=True)))

    total = stacked("total_path_mm")
    effective, share = (np.array([part[name] for part in found]) for name in ("effective", "share"))
    with np.errstate(divide="ignore"):
        per_mm = np.where(separation > 0, 1.0 / separation, np.nan)[:, None]
    names = detector_names(result.detectors)
    return DetectedSpectrum(
        wavelengths_nm=wavelengths,
        detectors=names,
        separation_mm=separation,
        photons=np.bincount(result.detected.detector, minlength=len(names)),
        labels=result.detected.labels,
        weight=stacked("weight"),
        path_mm=stacked("path_mm"),
        total_path_mm=total,
        dpf=Estimates(total.value * per_mm, total.error * per_mm),
        time_ns=stacked("time_ns"),
        time_sd_ns=stacked("time_sd_ns"),
        effective_photons=effective,
        largest_share=share,
        warnings=tuple(_warnings(result, media_by_wavelength, names, effective, keep_scattering=keep_scattering)),
    )


def reweighted(result: LightResult, media: Sequence[Medium], *, keep_scattering: bool = False) -> DetectedPhotons:
    """Return the detected photons of a run with the weights that they would have with other media.

    Parameters
    ----------
    result
        A run with detectors.
    media, keep_scattering
        As in `spectrum`, for one wavelength.

    Raises
    ------
    InvalidInput
        As `spectrum`.
    """
    change, detected = _change(result, media, keep_scattering=keep_scattering), result.detected
    factors = np.exp(_exponents(detected, slice(None), [change])[:, 0])
    return dataclasses.replace(
        detected, weight=(detected.weight * factors).astype(np.float32), launched=_launched(result)
    )


def spectrum_media(media_by_wavelength: Mapping[float, Sequence[Medium]]) -> tuple[Medium, ...]:
    """Return media to run with for a `spectrum`: the least absorption of each label, the middle one of scattering.

    Parameters
    ----------
    media_by_wavelength
        The media at each wavelength (nm), with the same labels.

    Raises
    ------
    InvalidInput
        If there is no wavelength, or the labels differ.
    """
    tables = [{medium.label: medium for medium in media} for media in media_by_wavelength.values()]
    if not tables:
        raise InvalidInput("no wavelength is given; give the media of at least one")
    if any(table.keys() != tables[0].keys() for table in tables):
        raise InvalidInput(
            "the media have other labels at some wavelengths; give a medium for each label at each of them"
        )
    order = sorted(media_by_wavelength)
    middle = tables[list(media_by_wavelength).index(order[len(order) // 2])]
    span = f"{order[0]:g} to {order[-1]:g} nm"
    return tuple(
        dataclasses.replace(
            medium,
            mua_per_mm=min(table[label].mua_per_mm for table in tables),
            source=f"least absorption of {span}, scattering at {order[len(order) // 2]:g} nm",
        )
        for label, medium in middle.items()
    )


# -- what changes from the run to a wavelength -------------------------------------------------------------------------


class _Change(NamedTuple):
    """By how much mu_a and mu_s of each label are larger, 1/mm, and the logarithm of the factor of all mu_s."""

    mua: Floats
    mus: Floats
    log_ratio: float


def _launched(result: LightResult) -> int:
    """Photons that the list of detected ones stands for: those before it was full."""
    detected = result.detected
    if not result.detectors:
        raise InvalidInput("the run has no detectors; give detectors, since only detected light can be weighted anew")
    if detected.dropped and not result.complete:
        raise InvalidInput(
            f"{detected.dropped:,} detected photons were not listed, and the run was stopped; raise max_detected, and "
            "run again"
        )
    return detected.listed_launched


def _change(result: LightResult, media: Sequence[Medium], *, keep_scattering: bool, where: str = "") -> _Change:
    domain = result.domain
    if domain.mua_per_mm is not None:
        raise InvalidInput(
            "the run's absorption is given voxel by voxel, and paths are known by label; give it by label"
        )
    table = {medium.label: medium for medium in media}
    if missing := [label for label in result.detected.labels if label not in table]:
        raise InvalidInput(f"there is no medium for label {missing[0]}{where}; give one")
    old, new = ([m(label) for label in result.detected.labels] for m in (domain.medium, table.__getitem__))
    mua = np.array([b.mua_per_mm - a.mua_per_mm for a, b in zip(old, new, strict=True)])
    if keep_scattering:
        return _Change(mua, np.zeros(len(old)), 0.0)
    known = {"g": domain.g is None and domain.phase_function is None, "n": domain.n is None}  # by label
    for name in (name for name, is_by_label in known.items() if is_by_label):
        for a, b in zip(old, new, strict=True):
            if not math.isclose(getattr(a, name), getattr(b, name), rel_tol=_ALIKE_RELATIVE, abs_tol=_ALIKE_RELATIVE):
                raise InvalidInput(
                    f"label {a.label} has {name} = {getattr(b, name):g}{where} and {getattr(a, name):g} in the run, "
                    "which sends photons along other paths; run again, or take the run's by keep_scattering=True"
                )
    return _Change(
        mua, *_scattering(old, new, where, is_by_voxel=domain.mus_per_mm is not None or domain.is_anisotropic)
    )


def _scattering(old: list[Medium], new: list[Medium], where: str, *, is_by_voxel: bool) -> tuple[Floats, float]:
    """Differences of mu_s, and the logarithm of the one factor."""
    before, after = (np.array([medium.mus_per_mm for medium in media]) for media in (old, new))
    if np.allclose(after, before, rtol=_ALIKE_RELATIVE, atol=0):
        return np.zeros(len(old)), 0.0
    scatters = before > 0
    ratios = np.divide(after, before, out=np.ones(len(old)), where=scatters)
    if (
        is_by_voxel
        or after[~scatters].any()
        or not ratios.min() > 0
        or np.ptp(ratios[scatters]) > _ALIKE_RELATIVE * ratios.max()
    ):
        listed = ", ".join(f"{a.label}: {a.mus_per_mm:g} to {b.mus_per_mm:g}" for a, b in zip(old, new, strict=True))
        raise InvalidInput(
            f"scattering{where} does not differ from the run's by one common factor (mu_s of label {listed} /mm), and "
            "how often a photon was scattered is known in all media together only; run again, or take the run's "
            "scattering by keep_scattering=True"
        )
    return after - before, float(np.log(ratios[scatters][0]))


def _exponents(detected: DetectedPhotons, part: slice, changes: Sequence[_Change]) -> npt.NDArray[np.float32]:
    """Logarithm of the factor of each photon's weight, shape (photons, changes); single precision as the paths."""
    per_mm = np.array([change.mua + change.mus for change in changes])
    exponents = detected.path_mm[part] @ (-per_mm.T).astype(np.float32)
    logs = np.array([change.log_ratio for change in changes], np.float32)
    if logs.any():
        exponents += detected.scatterings[part].astype(np.float32)[:, None] * logs
    return np.asarray(exponents)


def _parts_of(detected: DetectedPhotons) -> Iterator[slice]:
    """Photons, so many at once that they fit a processor's cache."""
    for first in range(0, len(detected), _PHOTONS_AT_ONCE):
        yield slice(first, first + _PHOTONS_AT_ONCE)


def _largest_exponents(detected: DetectedPhotons, changes: Sequence[_Change]) -> npt.NDArray[np.float32]:
    """The largest of each change, shape (changes,): beside it, weights and their squares stay in single precision."""
    largest = [_exponents(detected, part, changes).max(axis=0) for part in _parts_of(detected)]
    return np.max(largest, axis=0) if largest else np.zeros(len(changes), np.float32)


# -- sums over photons -------------------------------------------------------------------------------------------------


def _moments(detected: DetectedPhotons, changes: Sequence[_Change], launched: int) -> dict[str, Any]:
    """Estimates of one detector at each wavelength, from sums over its photons."""
    labels, wavelengths = len(detected.labels), len(changes)
    # from which times and paths count, against cancellation
    middle, middles = (detected.mean_time_ns(), detected.mean_path_mm()) if len(detected) else (0.0, np.zeros(labels))
    largest = _largest_exponents(detected, changes)
    sums, squares = (np.zeros((wavelengths, 2 * labels + 7)) for _ in range(2))
    heaviest = np.zeros(wavelengths)
    for part in _parts_of(detected):
        weights = detected.weight[part, None] * np.exp(_exponents(detected, part, changes) - largest)
        t = (detected.time_ns[part] - middle).astype(np.float32)
        paths = (detected.path_mm[part] - middles).astype(np.float32)
        total = paths.sum(axis=1)
        columns = np.column_stack([np.ones_like(t), paths, total, paths**2, total**2, t, t**2, t**3, t**4])
        sums += weights.T @ columns
        np.maximum(heaviest, weights.max(axis=0), out=heaviest)
        squares += np.square(weights, out=weights).T @ columns
    weight, weight2 = sums[:, 0], squares[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / weight[:, None]
        n = labels + 1  # columns of paths and their sum, then as many of their squares
        mean, square, cross = means[:, 1 : n + 1], squares[:, n + 1 : 2 * n + 1], squares[:, 1 : n + 1]
        spread = square - 2 * mean * cross + mean**2 * weight2[:, None]
        errors = np.sqrt(np.maximum(spread, 0.0)) / weight[:, None]
        times = _times(means[:, 2 * n + 1 :], squares[:, 2 * n + 1 :], weight, weight2)
        effective, share = weight**2 / weight2, heaviest / weight
    if len(detected) < 2:  # one photon knows no spread
        errors, times = np.full(errors.shape, np.nan), [(value, np.full(wavelengths, np.nan)) for value, _ in times]
    (time_ns, time_error), sd = times
    of_launched = weight / max(1, launched)
    variance = np.maximum(0.0, weight2 / max(1, launched) - of_launched**2)
    scale, mean = np.exp(largest.astype(np.float64)), mean + np.append(middles, middles.sum())
    return {
        "weight": (of_launched * scale, np.sqrt(variance / max(1, launched - 1)) * scale),
        "path_mm": (mean[:, :labels], errors[:, :labels]),
        "total_path_mm": (mean[:, labels], errors[:, labels]),
        "time_ns": (time_ns + middle, time_error),
        "time_sd_ns": sd,
        "effective": np.where(weight2 > 0, effective, 0.0),
        "share": share,
    }


def _times(means: Floats, squares: Floats, weight: Floats, weight2: Floats) -> list[tuple[Floats, Floats]]:
    """Mean and standard deviation of the times of flight with their errors, from sums of t, t^2, t^3 and t^4."""
    m, s = means.T, squares.T
    variance = np.maximum(m[1] - m[0] ** 2, 0.0)
    of_mean = s[1] - 2 * m[0] * s[0] + m[0] ** 2 * weight2
    # the sum of (w [(t - mean)^2 - variance])^2, expanded
    c = m[0] ** 2 - variance
    of_variance = s[3] - 4 * m[0] * s[2] + (4 * m[0] ** 2 + 2 * c) * s[1] - 4 * m[0] * c * s[0] + c**2 * weight2
    sd = np.sqrt(variance)
    sd_error = np.sqrt(np.maximum(of_variance, 0.0)) / weight / (2 * sd)
    return [(m[0], np.sqrt(np.maximum(of_mean, 0.0)) / weight), (sd, sd_error)]


# -- what is not to be trusted -----------------------------------------------------------------------------------------


def _warnings(
    result: LightResult,
    media_by_wavelength: Mapping[float, Sequence[Medium]],
    names: Sequence[str],
    effective: Floats,
    *,
    keep_scattering: bool,
) -> Iterator[str]:
    wavelengths = list(media_by_wavelength)
    for name, counts in zip(names, effective, strict=True):
        worst = int(counts.argmin())
        if counts[worst] < MIN_EFFECTIVE:
            yield (
                f"What detector {name} detects at {wavelengths[worst]:g} nm has an effective sample size of "
                f"{short_number(counts[worst], 2)} photons, less than {MIN_EFFECTIVE:g}: its standard errors are "
                "unreliable. Trace more photons."
            )
    old = {label: result.domain.medium(label) for label in result.detected.labels}
    for wavelength, media in media_by_wavelength.items():
        lower = [m for m in media if m.label in old and m.mua_per_mm < (1 - _ALIKE_RELATIVE) * old[m.label].mua_per_mm]
        if lower:
            label, had = lower[0].label, old[lower[0].label].mua_per_mm
            yield (
                f"The run absorbs more than some wavelengths do (label {label}: {had:g} /mm, {lower[0].mua_per_mm:g} "
                f"at {wavelength:g} nm), so few photons stand for long paths. Run with the media of spectrum_media."
            )
            break
    if keep_scattering and (most := _most_scattering(old, media_by_wavelength)) > _ALIKE_RELATIVE:
        yield (
            f"Scattering is that of the run at every wavelength, although mu_s' differs from it by up to {most:.0%}; "
            "run wavelengths apart from each other where that matters."
        )


def _most_scattering(old: Mapping[int, Medium], media_by_wavelength: Mapping[float, Sequence[Medium]]) -> float:
    """Largest relative difference of mu_s' from the run's."""
    differences = [
        abs(m.musp_per_mm / old[m.label].musp_per_mm - 1.0)
        for media in media_by_wavelength.values()
        for m in media
        if m.label in old and old[m.label].musp_per_mm > 0
    ]
    return max(differences, default=0.0)
