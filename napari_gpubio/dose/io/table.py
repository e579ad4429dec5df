"""Histograms as CSV and JSON, and back."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.dose.metrics.answer import evaluate
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.metrics.metric import Metric
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
    path: str | Path,
    dvhs: Iterable[Dvh],
    metrics: Sequence[Metric],
    *,
    reference_dose: float | None = None,
    everything: Dvh | None = None,
) -> None:
    """Write a table with a row for each structure and a column for each metric.

    A cell without a value says why: ``not evaluated: 'Heart' has 5 cc, less than D9cc[Gy] asks for``.

    Parameters
    ----------
    path
        The new file.
    dvhs
        Of one plan.
    metrics
        Columns.
    reference_dose
        What % of dose are of, in the histograms' unit.
    everything
        Histogram of all that is irradiated, see `napari_gpubio.dose.Metric.of`.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    known = tuple(dvhs)
    unit = known[0].unit if known else ""
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["structure", *(str(metric.in_unit(unit)) for metric in metrics)])
        for dvh in known:
            found = (evaluate(metric, dvh, reference_dose, everything=everything) for metric in metrics)
            writer.writerow([dvh.name, *(one.cell for one in found)])


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


def read_json(path: str | Path) -> DvhResult:
    """Read what `write_json` has written; all numbers are the same to the last bit.

    Raises
    ------
    InvalidInput
        If the file is missing or holds something else.
    """
    file = existing_file(path)
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        dvhs = tuple(_read_described(one) for one in told["structures"])
        return DvhResult(dvhs=dvhs, parameters=told["parameters"], complete=bool(told["complete"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{file.name} holds no histograms ({error!r}); give a file that write_json made") from error


def read_curves_csv(path: str | Path) -> tuple[Dvh, ...]:
    """Read the curves that `write_curves_csv` has written.

    Means are those of the curves, because the file has none. Empty structures are not in it.

    Raises
    ------
    InvalidInput
        If the file is missing or holds something else.
    """
    file = existing_file(path)
    points: dict[str, list[tuple[float, float, str]]] = {}
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                point = float(row["dose"]), float(row["volume_cc"]), row["unit"]
                points.setdefault(row["structure"], []).append(point)
        return tuple(_curve(name, own) for name, own in points.items())
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{file.name} holds no curves ({error!r}); give a file that write_curves_csv made"
        ) from error


def _curve(name: str, points: Sequence[tuple[float, float, str]]) -> Dvh:
    doses, volumes = np.array([point[0] for point in points]), np.array([point[1] for point in points])
    mean = float(doses[0] + np.trapezoid(volumes, doses) / volumes[0])
    return Dvh(name=name, unit=points[0][2], doses=doses, volumes_cc=volumes, mean=mean)


def _read_described(told: Mapping[str, Any]) -> Dvh:
    return Dvh(
        name=told["name"],
        unit=told["unit"],
        doses=np.array(told["doses"], np.float64),
        volumes_cc=np.array(told["volumes_cc"], np.float64),
        mean=math.nan if told["mean"] is None else told["mean"],
        outside_cc=told["outside_cc"],
        outside=told["outside"],
        color=None if told["color"] is None else tuple(told["color"]),
        spacing_mm=told["spacing_mm"],
        resolution_cc=told["resolution_cc"],
        notes=tuple(told["notes"]),
    )


def _described(dvh: Dvh) -> dict[str, Any]:
    return {
        "name": dvh.name,
        "unit": dvh.unit,
        "volume_cc": dvh.volume_cc,
        "outside_cc": dvh.outside_cc,
        "outside": dvh.outside,
        "mean": None if math.isnan(dvh.mean) else dvh.mean,
        "color": None if dvh.color is None else list(dvh.color),
        "spacing_mm": dvh.spacing_mm,
        "resolution_cc": dvh.resolution_cc,
        "notes": list(dvh.notes),
        "doses": dvh.doses.tolist(),
        "volumes_cc": dvh.volumes_cc.tolist(),
    }
