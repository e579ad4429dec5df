"""Histograms as CSV and JSON."""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.files import atomic_write
from napari_gpubio.dose.curves.dvh import Dvh
from napari_gpubio.dose.curves.metric import Metric
from napari_gpubio.dose.run import DvhResult


def write_curves_csv(path: str | Path, dvhs: Iterable[Dvh]) -> None:
    """Write every point of every cumulative curve: structure, dose, its unit, volume in cc and in %.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["structure", "dose", "unit", "volume_cc", "volume_percent"])
        for dvh in dvhs:
            writer.writerows(
                [dvh.name, repr(dose), dvh.unit, repr(volume), repr(100.0 * volume / dvh.volume_cc)]
                for dose, volume in zip(dvh.doses.tolist(), dvh.volumes_cc.tolist(), strict=True)
            )


def write_metrics_csv(
    path: str | Path, dvhs: Iterable[Dvh], metrics: Sequence[Metric], *, reference_dose: float | None = None
) -> None:
    """Write a table with a row for each structure and a column for each metric; what cannot be said stays empty.

    Parameters
    ----------
    reference_dose
        What % of dose are of, in the histograms' unit.

    Raises
    ------
    InvalidInput
        If the file cannot be written, or a metric does not go with the unit of the dose.
    """
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["structure", *map(str, metrics)])
        for dvh in dvhs:
            values = [metric.of(dvh, reference_dose) for metric in metrics]
            writer.writerow([dvh.name, *("" if math.isnan(value) else repr(value) for value in values)])


def write_json(path: str | Path, result: DvhResult) -> None:
    """Write curves and all that is known of how they were made.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    told = {
        "parameters": dict(result.parameters),
        "complete": result.complete,
        "structures": [_described(dvh) for dvh in result],
    }
    with atomic_write(path) as part:
        part.write_text(json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _described(dvh: Dvh) -> dict[str, Any]:
    return {
        "name": dvh.name,
        "unit": dvh.unit,
        "volume_cc": dvh.volume_cc,
        "outside_cc": dvh.outside_cc,
        "outside": dvh.outside,
        "mean": None if math.isnan(dvh.mean) else dvh.mean,
        "spacing_mm": dvh.spacing_mm,
        "notes": list(dvh.notes),
        "doses": dvh.doses.tolist(),
        "volumes_cc": dvh.volumes_cc.tolist(),
    }
