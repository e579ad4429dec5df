"""What a replay of detected photons gives: Jacobians of all measurements by the coefficients that were chosen."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.kernels.voxels.problem import FIRST_MEDIUM
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.detectors import AnyDetector, Detector, detector_names
from napari_gpubio.optics.model import OUTSIDE, Domain
from napari_gpubio.optics.sources import Vector
from napari_gpubio.probes.jacobians.model import Channel, Jacobian, Jacobians, error_of_groups
from napari_gpubio.probes.kernels.replay.measurements import Measurement
from napari_gpubio.probes.kernels.replay.problem import DetectorPart, ReplayProblem

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
_NO_PLACE = (math.nan,) * 3  # of several sources, and of a whole face


def detector_position(detector: AnyDetector) -> Vector:
    """Position of a detector, mm; NaN of a whole face."""
    return detector.position_mm if isinstance(detector, Detector) else _NO_PLACE


def assembled(
    result: LightResult,
    problem: ReplayProblem,
    done: dict[int, DetectorPart],
    of: tuple[str, ...],
    notes: tuple[str, ...],
    parameters: dict[str, Any],
) -> Jacobians:
    """Return the Jacobians of the detectors that are done, in the order of the measurements and coefficients.

    Parameters
    ----------
    result
        The run whose photons were traced again.
    problem, done
        What was asked for, and what came of each detector, by its place among those chosen.
    of
        Coefficients.
    notes, parameters
        Of the result.
    """
    finished, names, sources = sorted(done), detector_names(result.detectors), result.sources
    parts, unknown = [], ""
    for m, measurement in enumerate(problem.measurements):
        for coefficient in of:
            part, reason = _part(problem, done, finished, (m, measurement), coefficient)
            parts.append(part)
            unknown = reason or unknown
    channels = tuple(
        Channel(
            source="+".join(f"S{number}" for number in range(1, len(sources) + 1)),
            detector=names[problem.detectors[d]],
            source_mm=sources[0].position_mm if len(sources) == 1 else _NO_PLACE,
            detector_mm=detector_position(result.detectors[problem.detectors[d]]),
        )
        for d in finished
    )
    return Jacobians(
        domain=result.domain,
        channels=channels,
        parts=tuple(parts),
        method="replay",
        complete=len(finished) == problem.arrivals.detectors,
        parameters=parameters,
        notes=(*notes, *([unknown] if unknown else [])),
    )


def _part(
    problem: ReplayProblem,
    done: dict[int, DetectorPart],
    finished: Sequence[int],
    numbered: tuple[int, Measurement],
    coefficient: str,
) -> tuple[Jacobian, str]:
    """One part of the Jacobians, and what to know about it, if anything."""
    m, measurement = numbered
    domain, labels = problem.voxels.domain, len(problem.voxels.label_of_row)
    v = m * problem.coefficients + (problem.coefficients - 1 if coefficient != "mua" else 0)
    count, shape = len(finished), domain.shape
    values, errors = (np.empty((count, *shape), np.float32) for _ in range(2))
    deviations = np.empty((count, *problem.shares(0).shape[2:], labels))
    sums = np.empty((count, labels))
    for c, d in enumerate(finished):
        part, shares = done[d], problem.shares(d)[v]
        groups = part.label_groups[:, :, FIRST_MEDIUM:]
        values[c], errors[c], sums[c] = part.values[v], part.errors[v], groups[:, v].sum(axis=0)
        partner = groups[:, problem.partners[v]].sum(axis=0)
        deviations[c] = groups[:, v] - shares[0][:, None] * sums[c] - shares[1][:, None] * partner
        if not measurement.measured[d] > 0 and measurement.measure == "ln_intensity":  # an empty gate
            for array in (values, errors, sums, deviations):
                array[c] = np.nan
    factors, label_factors, reason = _factors(domain, coefficient)
    if factors is not None:
        values *= factors
        errors *= factors
        sums, deviations = sums * label_factors, deviations * label_factors
    jacobian = Jacobian(
        measure=measurement.measure,
        coefficient=coefficient,
        values=values,
        errors=errors,
        measured=measurement.measured[list(finished)],
        measured_error=measurement.measured_error[list(finished)],
        label_sums=sums,
        label_errors=error_of_groups(deviations),
        label_deviations=deviations,
        gate_ns=measurement.gate_ns,
        frequency_mhz=measurement.frequency_mhz,
    )
    return jacobian, reason


def _factors(domain: Domain, coefficient: str) -> tuple[Floats | None, Doubles, str]:
    """What turns derivatives by mu_s into those by a coefficient, by voxel and by label; NaN where it is unknown."""
    media = [domain.medium(label) for label in domain.labels_present]
    by_label = np.ones(len(media))
    if coefficient == "mua":
        return None, by_label, ""
    if coefficient == "musp":
        by_label = np.array([1.0 / (1.0 - medium.g) if medium.g < 1.0 else np.nan for medium in media])
        if domain.g is not None:
            return _factors_by_voxel(domain, by_label)
    unknown = _without_scattering(domain)
    partly = np.bincount(domain.ranks[unknown].ravel(), minlength=len(media) + 1)[1:] > 0
    table = np.concatenate([[1.0], by_label]).astype(np.float32)
    by_label = np.where(partly, np.nan, by_label)
    if not np.isnan(by_label).any() and coefficient == "mus":
        return None, by_label, ""
    factors = np.where(unknown, np.float32(np.nan), table[domain.ranks])
    if not np.isnan(by_label).any():
        return factors, by_label, ""
    named = [str(label) for label, factor in zip(domain.labels_present, by_label, strict=True) if np.isnan(factor)]
    reason = (
        f"The derivative by {'µs' if coefficient == 'mus' else 'µs′'} is not known where µs is 0, g is 1, or "
        f"scattering depends on the direction (label {', '.join(named[:8])}). Where µs is 0, no photon shows what "
        "scattering would do; give a small µs instead."
    )
    return factors, by_label, reason


def _factors_by_voxel(domain: Domain, by_label: Doubles) -> tuple[Floats, Doubles, str]:
    """The factors of mu_s' where g is given voxel by voxel: sums over a label with more than one g have none."""
    with np.errstate(divide="ignore"):
        factors = np.float32(1.0) / (np.float32(1.0) - domain.property_volume("g"))
    factors[_without_scattering(domain) | ~np.isfinite(factors)] = np.nan
    tissue = domain.labels != OUTSIDE
    ranks, values = domain.ranks[tissue] - 1, factors[tissue]
    least, most = np.full(len(by_label), np.inf), np.full(len(by_label), -np.inf)
    np.minimum.at(least, ranks, values)
    np.maximum.at(most, ranks, values)
    label_factors = np.where(least == most, least, np.nan)
    if not np.isnan(label_factors).any():
        return factors, label_factors, ""
    reason = "The derivative by µs′ is known voxel by voxel only, not for labels in which g differs or where µs is 0."
    return factors, label_factors, reason


def _without_scattering(domain: Domain) -> npt.NDArray[np.bool_]:
    """Where mu_s is 0 or depends on the direction, shape (X, Y, Z)."""
    unknown = (domain.labels != OUTSIDE) & (domain.property_volume("mus_per_mm") == 0)
    if domain.mus_tensor_per_mm is not None:
        unknown |= domain.mus_tensor_per_mm.any(axis=-1)
    return np.asarray(unknown)
