"""How right are dose-volume histograms: cases with a closed form, and a real plan; `benchmarks/README.md` says more.

Run from anywhere::

    python benchmarks/dose_accuracy.py
    python benchmarks/dose_accuracy.py --dicompyler peers/bin/python     # with dicompyler-core of another environment

dicompyler-core 0.5.6 needs pydicom 2, ours pydicom 3, so they do not share an environment: python -m venv peers, then
peers/bin/pip install dicompyler-core "pydicom<3" matplotlib scikit-image.
"""

import argparse
import time
from pathlib import Path

from common import header, header_lines, result_path, save, written
from dose import nelms_table, plan_table

from napari_gpubio.core.device import choose_device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--dicompyler", metavar="PYTHON", help="interpreter of an environment with dicompyler-core")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    head = header(quick=False) | {"device": device.describe()}
    nelms = nelms_table.measure(device, arguments.dicompyler)
    plan = plan_table.measure(device, arguments.dicompyler)
    title = ["# Accuracy of the dose engine", "", *header_lines(head), f"Device: {head['device']}.", ""]
    text = "\n".join([*title, *nelms_table.lines_of(nelms), *plan_table.lines_of(plan)])
    print(text)
    path = result_path(arguments.json, "dose_accuracy", time.strftime("%Y-%m-%d"), device)
    save(path, head | {"nelms": nelms, "plan": plan}, text + "\n")
    print(written(path))


if __name__ == "__main__":
    main()
