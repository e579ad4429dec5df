r"""Does a package install and work from nothing: empty environments of several Pythons and Qts, oldest and newest.

Run under a display, with uv at hand and the wheel of this tree::

    python -m build --wheel --outdir dist && xvfb-run -a -s "-screen 0 1600x1000x24" \
        python benchmarks/environments.py dist/*.whl --oldest 3.11 --python 3.14

Each environment gets the wheel with one Qt, or none; then every engine is imported, a verb run, and reference cases are
checked; with a Qt, every dock widget of the manifest is opened beside a sample. This tree is not importable there.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, Row, argument_parser, header, header_lines, line, publish, result_path, table

CHECKED = ("layered", "dose")  # reference cases that take seconds
HEADLESS = """
import importlib, sys, napari_gpubio
for engine in (*napari_gpubio.ENGINES, "workflows"):
    importlib.import_module(f"napari_gpubio.{engine}")
    importlib.import_module(f"napari_gpubio.{engine}.operations") if engine != "optics" else None
found = [name for name in ("qtpy", "napari", "PyQt6", "PySide6", "vispy") if name in sys.modules]
print(len(napari_gpubio.ENGINES), "engines,", found or "no window")
sys.exit(bool(found))
"""
VERSIONS = """
import importlib.metadata as m, platform
names = ("napari", "numpy", "scipy", "numba", "vispy", "PyQt6", "PySide6")
there = {d.metadata["Name"].lower() for d in m.distributions()}
print(f"Python {platform.python_version()},", ", ".join(f"{n} {m.version(n)}" for n in names if n.lower() in there))
"""
VERB = """
import sys
from napari_gpubio.cli import main
from napari_gpubio.core.files import sample_path
sys.exit(main(["tensors", str(sample_path("brain_phantom/dwi.nii.gz")), "--fa-out", "fa.nii.gz", "--force"]))
"""
PANELS = """
import sys, napari, yaml
from pathlib import Path
import napari_gpubio
manifest = yaml.safe_load(Path(napari_gpubio.__file__).with_name("napari.yaml").read_text(encoding="utf-8"))
viewer = napari.Viewer()
viewer.open_sample("napari-gpubio", "brain_phantom")
names = [widget["display_name"] for widget in manifest["contributions"]["widgets"]]
for name in names:
    dock, _ = viewer.window.add_plugin_dock_widget("napari-gpubio", name)
    napari.qt.get_qapp().processEvents()
    assert dock.isVisible() and dock.widget() is not None, name
print(len(names), "dock widgets of", len(names))
viewer.close()
"""


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", nargs="+", default=["3.14"], help="with the newest packages")
    parser.add_argument("--qt", nargs="+", default=["", "pyqt6", "pyside6"], help="extras; '' is no Qt")
    parser.add_argument("--oldest", default="3.11", help="with the oldest packages, and PyQt6; '' leaves it out")
    options = parser.parse_args()
    asked = [(options.oldest, "pyqt6", "lowest-direct")] if options.oldest else []
    asked += [(python, qt, "highest") for python in options.python for qt in options.qt]
    facts, rows = header(quick=False), []
    for python, qt, resolution in asked:
        rows += _tried(options.wheel.resolve(), python, qt, resolution)
    text = ["# From nothing", "", *header_lines(facts), f"Wheel: {options.wheel.stat().st_size:,} bytes.", ""]
    columns = ("Python", "Qt", "packages", "step", "outcome", "s")
    text += table(columns, [line(*row.values()) for row in rows])
    publish(result_path(options.json, "environments", facts["date"]), {**facts, "rows": rows}, "\n".join(text) + "\n")
    if failed := [row["step"] for row in rows if row["outcome"].startswith("FAILED")]:
        sys.exit(f"failed: {', '.join(failed)}")


def _tried(wheel: Path, python: str, qt: str, resolution: str) -> list[Row]:
    """The rows of one environment, up to the first step that fails."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        bin_ = venv / ("Scripts" if os.name == "nt" else "bin")
        own, verb = str(bin_ / "python"), str(bin_ / "napari-gpubio")
        install, extra = ["uv", "pip", "install", "-q", "-p", own], ["--extra", qt] if qt else []
        steps = [
            ("environment", ["uv", "venv", "-q", "--python", python, str(venv)]),
            ("packages", [*install, "--resolution", resolution, "-r", str(ROOT / "pyproject.toml"), *extra]),
            ("wheel", [*install, "--no-deps", str(wheel)]),
            ("versions", [own, "-c", VERSIONS]),
            ("imports", [own, "-c", HEADLESS]),
            ("tensors", [own, "-c", VERB]),
            *((f"check {engine}", [verb, "check", engine, "--device", "cpu"]) for engine in CHECKED),
            *([("dock widgets", [own, "-c", PANELS])] if qt else []),
        ]  # fmt: skip
        for step, command in steps:
            begun = time.perf_counter()
            done = subprocess.run(command, cwd=folder, env=_environment(step), capture_output=True, text=True)
            said = (done.stdout if done.returncode == 0 else done.stderr + done.stdout).strip().splitlines()
            outcome = said[-1] if said else "done"
            text = outcome if done.returncode == 0 else f"FAILED ({done.returncode}): {outcome}"
            about = {"python": python, "qt": qt or "none", "packages": resolution, "step": step, "outcome": text}
            rows.append({**about, "seconds": round(time.perf_counter() - begun)})
            print(line(*rows[-1].values()), flush=True)
            if done.returncode:
                break
    return rows


def _environment(step: str) -> dict[str, str]:
    """Variables without those that would make this tree importable; checks have no window, whose times tell of load."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", *(("DISPLAY", "WAYLAND_DISPLAY") if step.startswith("check") else ()))
    return {**{name: value for name, value in os.environ.items() if name not in left_out}, "LIBGL_ALWAYS_SOFTWARE": "1"}


if __name__ == "__main__":
    main()
