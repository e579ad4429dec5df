"""How soon panels follow in a napari window: the preview of a slice, curves after a stroke, a live map.

Run under a display::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/panels.py

It runs what `napari-gpubio check` runs of the dock widgets, and keeps the figures. What a graphics card does is not in
them: a layer or a plot that has its data is drawn with the window's next picture.
"""

import argparse
import importlib
from pathlib import Path

import napari
from common import header, header_lines, line, result_path, save, table, written

from napari_gpubio.cli import PANELS_WITH_CASES
from napari_gpubio.core.checks import run_check
from napari_gpubio.core.device import choose_device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0 or cuda:all")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    options = parser.parse_args()
    device = choose_device(options.device)
    results = header(quick=False) | {"napari": napari.__version__, "device": device.describe()}
    panels = [importlib.import_module(f"napari_gpubio.{name}.gui.checks") for name in PANELS_WITH_CASES]
    results["rows"] = [row for panel in panels for check in panel.CHECKS for row in run_check(check, device)]
    lines = [line(r["case"], r["quantity"], f"{r['result']:.1f}", f"{r['tolerance']:g}") for r in results["rows"]]
    head = ["# How soon panels follow", "", *header_lines(results), f"Device: {results['device']}."]
    text = [*head, "", *table(("case", "quantity", "result", "at most"), lines), ""]
    print("\n".join(text))
    path = result_path(options.json, "panels", results["date"], device)
    save(path, results, "\n".join(text))
    print(written(path))


if __name__ == "__main__":
    main()
