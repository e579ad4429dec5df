"""Statistics of a light result: fluence units, detected light, fluence in each label, and quality checks."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.light.detectors import DetectedPhotons
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.model import Domain
from napari_gpubio.light.result import UNITS, Estimate, LightResult, exposed_area_mm2


@dataclass(frozen=True, slots=True)
class FluenceUnit:
    """A unit of fluence.

    Parameters
    ----------
    name
        One of `napari_gpubio.light.result.UNITS`.
    factor
        What the fluence per launched photon, 1/mm^2, is multiplied with.
    """

    name: str
    factor: float

    def __post_init__(self) -> None:
        if self.name not in UNITS:
            raise InvalidInput(f"the unit is {self.name!r}; choose one of {', '.join(UNITS)}")
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise InvalidInput(f"the factor of {self.name} is {self.factor}; it must be greater than 0")


PER_PHOTON = FluenceUnit("1/mm²", 1.0)


def fluence_units(*, power_mw: float | None = None, energy_j: float | None = None) -> tuple[FluenceUnit, ...]:
    """Return units of fluence: per photon, and by the source's power and energy where known.

    Parameters
    ----------
    power_mw
        Power of a continuous source, mW.
    energy_j
        What it gave in all (power times exposure), J.

    Raises
    ------
    InvalidInput
        If the power or the energy is not greater than 0.
    """
    units = [PER_PHOTON]
    if power_mw is not None:
        units.append(FluenceUnit("mW/mm²", power_mw))
    if energy_j is not None:
        units.append(FluenceUnit("J/cm²", 100.0 * energy_j))
    return tuple(units)


Array = npt.NDArray[Any]
MOST_BINS, SHORTEST_NS = 100, 1e-3  # intervals of a time spread


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorNumbers:
    """Light that one detector detected.

    Parameters
    ----------
    name
        Its name, or its number.
    photons
        Photons listed.
    weight
        Their weight per launched photon.
    total_path_mm, path_mm
        Mean path length in tissue, in all and in each label; weighted, as the time is.
    separation_mm
        Distance between source and detector.
    dpf
        Mean path over separation: the differential pathlength factor.
    time_ns
        Mean time of flight.
    """

    name: str
    photons: int
    weight: Estimate
    total_path_mm: Estimate
    path_mm: Mapping[int, Estimate]
    separation_mm: float
    dpf: Estimate
    time_ns: Estimate

    def parts(self) -> tuple[tuple[str, Estimate, str], ...]:
        """Name, number and unit of what is not by label."""
        return (
            ("Detected weight", self.weight, ""),
            ("Separation", Estimate(self.separation_mm, math.nan), "mm"),
            ("Mean path", self.total_path_mm, "mm"),
            ("DPF", self.dpf, ""),
            ("Mean time of flight", self.time_ns, "ns"),
        )


def detector_numbers(result: LightResult) -> tuple[DetectorNumbers, ...]:
    """The numbers of every detector, in their order."""
    return tuple(_of_detector(result, index) for index in range(len(result.detectors)))


def _of_detector(result: LightResult, index: int) -> DetectorNumbers:
    detector, detected = result.detectors[index], result.detected.of(index)
    separation = math.dist(detector.position_mm, result.source.position_mm)
    paths = _weighted_means(detected.weight, detected.path_mm)
    total = _weighted_means(detected.weight, detected.path_mm.sum(axis=1, dtype=np.float64)[:, None])[0]
    return DetectorNumbers(
        name=detector.name or str(index + 1),
        photons=len(detected),
        weight=_detected_weight(detected),
        total_path_mm=total,
        path_mm=dict(zip(detected.labels, paths, strict=True)),
        separation_mm=separation,
        dpf=Estimate(*(part / separation if separation > 0 else math.nan for part in total)),
        time_ns=_weighted_means(detected.weight, detected.time_ns[:, None])[0],
    )


def _detected_weight(detected: DetectedPhotons) -> Estimate:
    """Mean over all launched photons; one that was not detected weighs 0."""
    weight, launched = detected.weight.astype(np.float64), max(1, detected.launched)
    mean = weight.sum() / launched
    variance = max(0.0, float(weight @ weight) / launched - mean**2)
    return Estimate(float(mean), math.sqrt(variance / max(1, launched - 1)))


def _weighted_means(weight: Array, values: Array) -> list[Estimate]:
    """Weighted mean of each column, and its standard error as that of a ratio of two sums; one photon knows none."""
    weight = weight.astype(np.float64)
    total = weight.sum()
    if total == 0:
        return [Estimate(math.nan, math.nan)] * values.shape[1]
    means = weight @ values / total
    errors = np.sqrt(weight**2 @ (values - means) ** 2) / total if len(weight) > 1 else np.full(means.shape, math.nan)
    return [Estimate(float(mean), float(error)) for mean, error in zip(means, errors, strict=True)]


class TimeSpread(NamedTuple):
    """Temporal point spread function of a detector.

    Parameters
    ----------
    time_ns
        Middle of each interval, shape (B,).
    weight, error
        Detected weight per launched photon and ns, and its standard error, shape (B,).
    """

    time_ns: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


def time_spread(detected: DetectedPhotons) -> TimeSpread:
    """Temporal point spread function (TPSF) of the photons of one detector, in as many equal intervals as they fill."""
    if not len(detected):
        return TimeSpread(np.empty(0), np.empty(0), np.empty(0))
    bins = min(math.ceil(2 * len(detected) ** (1 / 3)), MOST_BINS)  # Rice's rule
    first, last = float(detected.time_ns.min()), float(detected.time_ns.max())
    slack = max(0.0, bins * SHORTEST_NS - (last - first)) / 2
    edges = np.linspace(first - slack, np.nextafter(last + slack, np.inf), bins + 1)
    squares, _ = np.histogram(detected.time_ns, edges, weights=detected.weight.astype(np.float64) ** 2)
    error = np.sqrt(squares) / np.diff(edges) / max(1, detected.launched)
    return TimeSpread((edges[:-1] + edges[1:]) / 2, detected.time_point_spread(edges), error)


class LabelFluence(NamedTuple):
    """Fluence in the voxels of a label, per launched photon.

    Parameters
    ----------
    volume_mm3
        Volume of the label.
    mean, highest
        Fluence, 1/mm^2. The highest is that of one noisy voxel among many, and so rather too high.
    above_mm3
        Volume in which a threshold is reached; NaN if there was none.
    """

    volume_mm3: float
    mean: Estimate
    highest: Estimate
    above_mm3: float


def label_fluence(result: LightResult, threshold: float | None = None) -> dict[int, LabelFluence]:
    """Fluence in each label that occurs.

    The mean's standard error is known where absorption is the same in the whole label: what the label absorbs is then
    its mean fluence times a constant, and has the same relative error. Elsewhere it is NaN, because neighboring
    voxels do not vary independently.

    Parameters
    ----------
    result
        What a simulation gave.
    threshold
        Fluence per launched photon, 1/mm^2.
    """
    domain = result.domain
    counts, sums, places, above = _tally(
        domain.labels.ravel(), result.fluence.ravel(), np.float32(np.inf if threshold is None else threshold)
    )
    found = {}
    for label in domain.labels_present:
        mean, place = sums[label] / counts[label], places[label]
        found[label] = LabelFluence(
            volume_mm3=float(counts[label]) * domain.voxel_volume_mm3,
            mean=Estimate(float(mean), float(mean) * _relative_error(result, label)),
            highest=Estimate(float(result.fluence.ravel()[place]), float(result.fluence_error.ravel()[place])),
            above_mm3=math.nan if threshold is None else float(above[label]) * domain.voxel_volume_mm3,
        )
    return found


def _relative_error(result: LightResult, label: int) -> float:
    part = result.absorbed.get(label)
    if result.domain.mua_per_mm is not None or part is None or part.value <= 0:
        return math.nan
    return part.error / part.value


def _tally(labels: Array, fluence: Array, threshold: np.float32) -> tuple[Array, Array, Array, Array]:
    """Of each label: voxels, sum of the fluence, voxel of the highest, voxels that reach the threshold."""
    counts = np.bincount(labels)
    sums, above = np.bincount(labels, weights=fluence), np.bincount(labels[fluence >= threshold], minlength=len(counts))
    highest, places = np.full(len(counts), -np.inf, fluence.dtype), np.full(len(counts), -1)
    np.maximum.at(highest, labels, fluence)
    voxels = np.flatnonzero(fluence == highest[labels])[::-1]
    places[labels[voxels]] = voxels  # the first voxel is written last
    return counts, sums, places, above


def label_name(domain: Domain, label: int) -> str:
    """Name of a label's medium."""
    return domain.medium(label).name or f"label {label}"


Status = Literal["ok", "warning", "error"]
CLOSED_WITHIN = 1e-6  # by how much the energy balance may miss 1, apart from the rounding of what is booked
_ROUNDING_SD = 3.0  # standard deviations of that, which are upper bounds: two to seven times what is seen
_MOST_EFOLDS = 22.0  # a packet that has lost more of its weight books less than a quantum
MOST_TRUNCATED = 0.01  # fraction of a launched photon
MOST_ROULETTE_Z = 4.0


class CavityLight(NamedTuple):
    """What is lost in cavities: voxels of label 0 that tissue encloses.

    Parameters
    ----------
    volume_mm3
        Volume of the cavities.
    share
        Part of the escaping light that escapes into them. Without a map of escaping light it is estimated: from a voxel
        as much escapes as its fluence times the area of its faces to label 0.
    """

    volume_mm3: float
    share: float


def cavity_light(result: LightResult) -> CavityLight:
    """How large the cavities in the tissue are, and how much of the escaping light they take."""
    cavities = result.domain.cavities
    if not cavities.any():
        return CavityLight(0.0, 0.0)
    area = exposed_area_mm2(result.domain)
    escaped = result.fluence * area if result.escaped_weight is None else result.escaped_weight
    part = np.divide(exposed_area_mm2(result.domain, cavities), area, out=np.zeros_like(area), where=area > 0)
    whole = escaped.sum(dtype=np.float64)
    lost = (escaped * part).sum(dtype=np.float64)
    volume = np.count_nonzero(cavities) * result.domain.voxel_volume_mm3
    return CavityLight(volume, float(lost / whole) if whole > 0 else 0.0)


class Finding(NamedTuple):
    """Status of one property of a result, and a sentence about it."""

    status: Status
    sentence: str


def findings(result: LightResult, *, running: bool = False) -> tuple[Finding, ...]:
    """What to think of a result, worst first; never empty.

    Parameters
    ----------
    result
        What a simulation gave.
    running
        Whether more photons are being traced: what only they can improve is then no fault yet.
    """
    energy = result.energy
    found = [*balance_findings(energy.total, energy.roulette, closed_within(result))]
    if energy.truncated.value > MOST_TRUNCATED:
        end = result.settings.time_gates_ns[-1]
        message = f"{energy.truncated.value:.1%} of the light was still traveling at {end:g} ns; add later gates."
        found.append(Finding("warning", message))
    if result.detected.dropped:
        message = f"{result.detected.dropped:,} detected photons were not listed; raise 'Most detected photons'."
        found.append(Finding("warning", message))
    if (cavity := cavity_light(result)).volume_mm3 > 0:
        message = (
            f"Tissue encloses {short_number(cavity.volume_mm3, 3)} mm³ of label 0, where about {cavity.share:.1%} of "
            "the escaping light goes and is lost. If light should cross it as air, give it a label of its own, with "
            "µa = µs = 0 and n = 1."
        )
        found.append(Finding("warning", message))
    if not running and not math.isfinite(energy.absorbed.error):
        found.append(Finding("warning", "Too few batches for standard errors; run more photons."))
    return worst_first(found, result, energy.total, running=running)


def closed_within(result: LightResult) -> float:
    """By how much the energy balance may miss 1: a millionth, and the rounding of what was booked.

    Light in a voxel is booked as weight times path, in quanta, rounded up or down by chance; mu_a times it is what the
    voxel absorbed. A packet books when it leaves a voxel (after a mean chord of 2/3 of its edge) or has gone two
    absorption lengths, until it has no weight; so its rounding varies at most by (mu_a q / 2)^2 times the number of its
    bookings, and the sum over N packets, per packet, by a part in N of that.
    """
    domain = result.domain
    volume = domain.mua_per_mm
    mua = max(domain.medium(label).mua_per_mm for label in domain.labels_present) if volume is None else volume.max()
    if not mua > 0:
        return CLOSED_WITHIN
    scale = VoxelProblem(domain, result.source, result.settings).scale
    bookings = _MOST_EFOLDS * (0.5 + 1.5 / (mua * domain.voxel_sizes_mm.min()))
    sd = mua / (2.0 * scale) * math.sqrt(bookings / max(1, result.launched))
    return float(CLOSED_WITHIN + _ROUNDING_SD * sd)


def balance_findings(total: float, roulette: Estimate, closed_within: float = CLOSED_WITHIN) -> Iterator[Finding]:
    """What is wrong with the energy balance of voxels or layers, if anything is."""
    if not abs(total - 1) < closed_within:
        yield Finding("error", f"Energy balance violated: the parts sum to {total:.7g}, not 1. Do not use this result.")
    if abs(z := roulette_z(roulette)) > MOST_ROULETTE_Z:
        yield Finding("warning", f"Roulette is {z:.1f} standard errors from 0; run again with another seed.")


def worst_first(found: list[Finding], result: Any, total: float, *, running: bool) -> tuple[Finding, ...]:
    """Findings in order, with a good word where there is none, and how many photons an unfinished run has done."""
    if not found:
        within = 10.0 ** math.ceil(math.log10(max(abs(total - 1), 1e-15)))  # a power of ten not below it
        found = [Finding("ok", f"Energy balance closed within {within:.0e}.")]
    if not result.complete:
        how = "Running:" if running else "Stopped after"
        found = [*found, Finding("ok", f"{how} {result.launched:,} of {result.settings.photons:,} photons.")]
    return tuple(sorted(found, key=lambda finding: ("error", "warning", "ok").index(finding.status)))


def roulette_z(part: Estimate) -> float:
    """Distance from 0 of what roulette took and gave, in standard errors; NaN if nothing was played for."""
    return part.value / part.error if part.error > 0 else math.nan
