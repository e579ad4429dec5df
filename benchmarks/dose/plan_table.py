"""A real plan beside its planning system's own histograms and dicompyler-core's."""

import math
import time
from typing import Any

from common import ROOT, line, table

from dose.peers import ask_dicompyler
from napari_gpubio.core.device import Device
from napari_gpubio.dose.io import read_rtdose, read_rtstruct
from napari_gpubio.dose.io.dvh_files import read_dvh_sequence
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.run import dvh

FOLDER = ROOT.parent / "shared" / "data" / "dose" / "dicompyler_example"
HELD_TO_1_PERCENT = ("Breast", "Heart", "Lt Lung", "Tumor Bed")
VALUES = ("volume_cc", "Dmean", "D95", "D50", "largest")


def measure(device: Device, python: str | None) -> dict[str, Any] | None:
    """Values of every structure by everybody; None where the files are absent."""
    if not FOLDER.is_dir():
        return None
    structures, dose = read_rtstruct(FOLDER / "rtss.dcm"), read_rtdose(FOLDER / "rtdose.dcm")
    numbers = dict(zip((one.name for one in structures.structures), structures.numbers, strict=True))
    begun = time.perf_counter()
    ours = dvh(dose, structures.structures, device=device)
    seconds = time.perf_counter() - begun
    stored = {
        one.name: one for one in read_dvh_sequence(FOLDER / "rtdose.dcm", {n: name for name, n in numbers.items()})
    }
    tasks = [(FOLDER / "rtss.dcm", FOLDER / "rtdose.dcm", numbers[one.name]) for one in ours]
    theirs = ask_dicompyler(tasks, python)
    rows = []
    for n, one in enumerate(ours):
        row = {"structure": one.name, "ours": _values(one)}
        if one.name in stored:
            row["planning system"] = _values(stored[one.name])
        if theirs.found:
            row["dicompyler"] = theirs.found[n] | {"curve": None}
        rows.append(row)
    return {"rows": rows, "beside": theirs.version, "seconds": seconds}


def _values(found: Dvh) -> dict[str, float]:
    doses = {f"D{x}": float(found.dose_at_percent(x)) for x in (95, 50)}
    return {"volume_cc": found.volume_cc, "Dmean": found.mean, **doses, "largest": found.largest}


def lines_of(measured: dict[str, Any] | None) -> list[str]:
    head = ["", "## A real plan", ""]
    if measured is None:
        return [*head, f"{FOLDER} is absent."]
    columns = ("structure", *(f"{name}: planning system / ours / dicompyler-core" for name in VALUES), "mean, ours (%)")
    took = [row["dicompyler"]["seconds"] for row in measured["rows"] if "seconds" in row.get("dicompyler", {})]
    return [
        *head,
        (
            "Planning system: the histograms that it has stored in the file. Target: means within 1 % for "
            f"{', '.join(HELD_TO_1_PERCENT)}. BODY differs from the planning system's in every program."
        ),
        f"Beside: {measured['beside']}. All structures: ours {measured['seconds']:.3g} s (first call, from arrays)"
        + (f", dicompyler-core {sum(took):.3g} s (from files)." if took else "."),
        "",
        *table(columns, [_line(row) for row in measured["rows"]]),
    ]


def _line(row: dict[str, Any]) -> str:
    who = ("planning system", "ours", "dicompyler")
    cells = [" / ".join(_number(row.get(one, {}).get(name)) for one in who) for name in VALUES]
    stored = row.get("planning system")
    apart = f"{100 * (row['ours']['Dmean'] / stored['Dmean'] - 1):+.2f}" if stored else ""
    return line(row["structure"], *cells, apart)


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"
