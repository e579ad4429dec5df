"""What the standard errors of light are worth: the spread of 20 seeds over the error that they claim, tally by tally.

Run from anywhere::

    python benchmarks/light_errors.py                     # this machine's CPU, some minutes
    python benchmarks/light_errors.py --device cuda:0     # a GPU: a hundred times as many photons
    python benchmarks/light_errors.py --parts layers --seeds 40

A GPU machine needs NumPy, SciPy, Numba and CuPy only.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from common import Report, Row, header, result_path, table
from light import errors

from napari_gpubio.core.device import Device, choose_device

GPU_TIMES = 100  # as many photons as on a CPU
PARTS: dict[str, tuple[Callable[..., list[Row]], int, str]] = {
    "voxels": (errors.voxel_rows, 20_000, "Voxels, labels, energy, detectors, wavelengths"),
    "layers": (errors.layer_rows, 20_000, "Seven layers of skin"),
    "fluorescence": (errors.fluorescence_rows, 16_000, "Fluorescence"),
}


def run_part(report: Report, name: str, device: Device, seeds: int, photons: int) -> None:
    rows_of, _, title = PARTS[name]
    found = rows_of(device, photons, range(1, seeds + 1))
    low, high = errors.GOAL
    within = sum(low - 2 * r["ratio_error"] <= r["ratio"] <= high + 2 * r["ratio_error"] for r in found)
    sentence = (
        f"{seeds} seeds of {photons:,} photons. Root mean square of the spread over that of the claimed error; "
        f"{within} of {len(found)} are within {low:g} to {high:g} or two of their uncertainties from it."
    )
    lines = table(errors.COLUMNS, [errors.row_line(r) for r in found])
    report.add(name, title, found, sentence, "", *lines)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--quick", action="store_true", help="a quarter of the photons")
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--photons", type=int, help="of a run; default 20,000, on a GPU a hundred times as many")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    device = choose_device(arguments.device)
    facts = header(arguments.quick) | {"device": device.describe()}
    path = result_path(arguments.json, "light_errors", facts["date"], device)
    report = Report(path, "Standard errors of the light engine", facts, f"Device: {facts['device']}.")
    times = (GPU_TIMES if device.is_gpu else 1) / (4 if arguments.quick else 1)
    works = {
        name: partial(run_part, report, name, device, arguments.seeds, arguments.photons or int(PARTS[name][1] * times))
        for name in arguments.parts
    }
    report.run(works)


if __name__ == "__main__":
    main()
