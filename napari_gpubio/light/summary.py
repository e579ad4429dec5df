"""Summary table of a light result, as the panel shows it, the command line prints it, and a CSV file holds it."""

import os

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import write_rows
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.sensitivity import Sensitivity
from napari_gpubio.light.spectrum import DetectedSpectrum
from napari_gpubio.light.statistics import detector_numbers, label_fluence, label_name
from napari_gpubio.light.trust import MAX_TRUNCATED, closed_within
from napari_gpubio.optics.estimates import PER_PHOTON, FluenceUnit
from napari_gpubio.optics.numbers import ABSORBED, ENERGY, RUN, NumberRow, Status, number_in_full, roulette_row

MEAN, HIGHEST = "Mean fluence", "Highest fluence"


def number_rows(
    result: LightResult, *, unit: FluenceUnit = PER_PHOTON, threshold: float | None = None
) -> tuple[NumberRow, ...]:
    """Every number of a result.

    Parameters
    ----------
    result
        What a simulation gave.
    unit
        Unit of fluence.
    threshold
        Fluence in that unit above which volumes are measured; None: no such rows.

    Raises
    ------
    InvalidInput
        If the threshold is negative or not a number.
    """
    run = NumberRow(group=RUN, name="Photons", value=result.launched, note="" if result.complete else "stopped early")
    return (run, *energy_rows(result), *fluence_rows(result, unit=unit, threshold=threshold), *detector_rows(result))


def energy_rows(result: LightResult) -> tuple[NumberRow, ...]:
    """Where the energy went, and what each label absorbed; needs no pass over the volume."""
    energy = result.energy
    parts = {
        "Specular": energy.specular,
        "Missed": energy.missed,
        "Escaped (diffuse)": energy.escaped,
        "Absorbed": energy.absorbed,
    }
    rows = [NumberRow(group=ENERGY, name=name, value=part.value, error=part.error) for name, part in parts.items()]
    part = energy.truncated
    status: Status = "warning" if part.value > MAX_TRUNCATED else "ok"
    note = "still traveling at the end of the last time gate"
    rows.append(NumberRow(group=ENERGY, name="Truncated", value=part.value, error=part.error, status=status, note=note))
    rows.append(roulette_row(energy.roulette))
    closed: Status = "ok" if abs(energy.total - 1) < closed_within(result) else "error"
    rows.append(NumberRow(group=ENERGY, name="Total", value=energy.total, status=closed))
    for label, part in result.absorbed.items():
        name = label_name(result.domain, label)
        rows.append(NumberRow(group=ABSORBED, name=name, value=part.value, error=part.error, label=label))
    return tuple(rows)


def fluence_rows(
    result: LightResult, *, unit: FluenceUnit = PER_PHOTON, threshold: float | None = None
) -> tuple[NumberRow, ...]:
    """Mean and highest fluence of each label, and the volume in which it reaches a threshold.

    One pass over the volume; the arguments are those of `number_rows`.

    Raises
    ------
    InvalidInput
        If the threshold is negative or not a number.
    """
    if threshold is not None and not threshold >= 0:
        raise InvalidInput(f"the threshold is {threshold} {unit.name}; it must not be negative")
    found = label_fluence(result, None if threshold is None else threshold / unit.factor)
    rows = []
    rate = " rate" if unit.name == "mW/mm²" else ""
    for group, field in ((MEAN + rate, "mean"), (HIGHEST + rate, "highest")):
        for label, numbers in found.items():
            value, error = (unit.factor * part for part in getattr(numbers, field))
            name = label_name(result.domain, label)
            rows.append(NumberRow(group=group, name=name, value=value, error=error, unit=unit.name, label=label))
    if threshold is not None:
        group = above_title(threshold, unit)
        for label, numbers in found.items():
            name = label_name(result.domain, label)
            rows.append(NumberRow(group=group, name=name, value=numbers.above_mm3, unit="mm³", label=label))
    return tuple(rows)


def above_title(threshold: float, unit: FluenceUnit) -> str:
    """Title of the volumes above a threshold."""
    return f"Volume above {threshold:g} {unit.name}"


def detector_rows(result: LightResult) -> tuple[NumberRow, ...]:
    """The numbers of every detector."""
    rows = []
    for numbers in detector_numbers(result):
        group = f"Detector {numbers.name}"
        status: Status = "warning" if result.detected.dropped else "ok"
        note = "of the listed photons only: the list was full" if result.detected.dropped else ""
        rows.append(NumberRow(group=group, name="Photons", value=numbers.photons, status=status, note=note))
        for name, part, unit in numbers.parts():
            if name in ("Separation", "DPF") and isinstance(result.source, tuple):
                continue  # there is none from several sources
            rows.append(NumberRow(group=group, name=name, value=part.value, error=part.error, unit=unit))
        for label, part in numbers.path_mm.items():
            name = f"Mean path, {label_name(result.domain, label)}"
            rows.append(NumberRow(group=group, name=name, value=part.value, error=part.error, unit="mm", label=label))
    return tuple(rows)


def write_spectrum(path: str | os.PathLike[str], found: DetectedSpectrum) -> None:
    """Write a spectrum of detected light as comma-separated values, a line for each detector and wavelength.

    Raises
    ------
    InvalidInput
        If the folder does not exist.
    """
    rows = list(found.rows())
    cells = ([number_in_full(value) if isinstance(value, float) else value for value in row.values()] for row in rows)
    write_rows(path, [rows[0] if rows else (), *cells], marked=True)


def sensitivity_rows(found: Sensitivity, detector: str) -> tuple[NumberRow, ...]:
    """Share of each label in the sensitivity to a detector, and the mean path in it, as rows of the table of numbers.

    Neither has an error: voxels share photons; see `Sensitivity.path_by_label_mm`.

    Parameters
    ----------
    found
        Sensitivity to absorption.
    detector
        Its name.
    """
    share, path = f"Sensitivity to {detector}, share", f"Sensitivity to {detector}, mean path"
    groups = (
        (share, "%", {label: 100 * part for label, part in found.share_by_label().items()}),
        (path, "mm", found.path_by_label_mm),
    )
    return tuple(
        NumberRow(group=group, name=label_name(found.domain, label), value=value, unit=unit, label=label)
        for group, unit, values in groups
        for label, value in values.items()
    )
