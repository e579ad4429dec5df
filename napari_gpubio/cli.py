"""The command line: ``napari-gpubio demo | check | bench | info | warm``, and a verb for each engine."""

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari_gpubio import ENGINES, __version__
from napari_gpubio.core import real_samples
from napari_gpubio.core.checks import run_check, run_speed
from napari_gpubio.core.command_line import STOPPED, Parser, check_outputs
from napari_gpubio.core.device import choose_device, gpu_problem, list_devices, machine
from napari_gpubio.core.errors import GpuBioError, memory_in_words
from napari_gpubio.core.operations import session_verbs
from napari_gpubio.core.operations.commands import add_verbs
from napari_gpubio.core.report import (
    PIPE_CLOSED,
    add_common,
    measured,
    open_nowhere,
    print_error,
    reporting,
    show,
    show_at_once,
    take_any_text,
    tell,
    warn,
    wrote,
)
from napari_gpubio.core.warmup import warm_engines
from napari_gpubio.verbs import OF_ENGINES, engine_of

_FOLDER = Path(__file__).parent
CHECKED = tuple(name for name in ENGINES if (_FOLDER / name / "checks.py").exists())
PANELS_WITH_CASES = tuple(name for name in ENGINES if (_FOLDER / name / "gui" / "checks.py").exists())
_OWN = ("demo", "check", "bench", "warm", "info", "sample", *session_verbs.VERBS)
_DEMO_FOLDER = Path("napari-gpubio-demo")
_EXAMPLES = """examples:
  napari-gpubio demo                      the first minute: a brain, a click, its fibers
  napari-gpubio check fibers              published and closed-form cases on this machine
  napari-gpubio bench --json              speeds of this machine, for a script
  napari-gpubio track dwi.nii.gz --seed 0 -5 22 --out callosum.trk
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    sys.stdout, sys.stderr = (stream or open_nowhere() for stream in (sys.stdout, sys.stderr))
    take_any_text(sys.stdout, sys.stderr)
    try:
        try:
            given = sys.argv[1:] if arguments is None else [*arguments]
            options = make_parser(given).parse_args(given)
            with memory_in_words(), reporting(options):
                status = options.run(options)
        finally:
            show("", sys.stdout)  # a help is printed by argparse
    except BrokenPipeError:
        return PIPE_CLOSED
    except GpuBioError as error:
        print_error(f"napari-gpubio: {error}")
        return 2
    except KeyboardInterrupt:
        print_error("napari-gpubio: stopped")
        return STOPPED
    return int(status or 0)


def make_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of verbs, whose options have a ``run`` that takes them and returns the exit status.

    Where the arguments name a verb of an engine, no other engine is imported; else it has the verbs of all.
    """
    named = next((one for one in arguments if not one.startswith("-")), "")
    engine = engine_of(named)
    engines = (engine,) if engine is not None else () if named in _OWN else tuple(OF_ENGINES)
    parser = Parser(
        prog="napari-gpubio",
        description="Interactive brain and tissue physics in napari.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"napari-gpubio {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    demo = verbs.add_parser("demo", help="open napari with the sample brain, a click already made, fibers on screen")
    demo.add_argument("--headless", action="store_true", help="no window: save a picture and the fibers instead")
    demo.add_argument("--out", type=Path, default=_DEMO_FOLDER, help="folder for --headless (default: %(default)s)")
    demo.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    demo.set_defaults(run=_demo)

    check = verbs.add_parser("check", help="run the engines' published reference cases on this machine")
    bench = verbs.add_parser("bench", help="measure the engines' speed cases on this machine")
    for verb, run in ((check, _check), (bench, _bench)):
        verb.add_argument("engine", nargs="?", choices=CHECKED, help="one engine; all of them if left out")
        verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
        verb.set_defaults(run=run)

    warm = verbs.add_parser("warm", help="compile the CPU backends ahead, so that nothing waits for it later")
    warm.add_argument("engine", nargs="?", choices=CHECKED, help="one engine; all of them if left out")
    warm.set_defaults(run=_warm)

    info = verbs.add_parser("info", help="devices, versions, and why a GPU is not used")
    info.set_defaults(run=_info)

    real_samples.add_verb(verbs)
    session_verbs.add_verbs(verbs)
    for engine in engines:
        add_verbs(verbs, importlib.import_module(f"napari_gpubio.{engine}.operations"))
    add_common(verbs.choices)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from napari_gpubio.demo import FILES, run_headless, run_window

    if options.headless or not has_display():
        own = options.out == _DEMO_FOLDER  # what is there is of an earlier demonstration
        check_outputs({}, {}, force=options.force or own, folders={"--out": (options.out, FILES)})
        for path in run_headless(options.out, options.device):
            wrote(path)
        return 0
    return run_window(options.device)


def has_display() -> bool:
    """Whether a window can be opened; on Linux that needs an X server or Wayland."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def can_open_window() -> bool:
    """Whether there is a display, and a Qt to use it."""
    if not has_display():
        return False
    try:
        importlib.import_module("qtpy.QtWidgets")
    except ImportError:  # no binding of Qt, or one that lacks a library of the system
        return False
    return qt_starts()


def qt_starts() -> bool:
    """Whether Qt finds its display, in a process of its own: where it does not, it ends the process."""
    tried = subprocess.run(
        [sys.executable, "-c", "from qtpy.QtWidgets import QApplication; QApplication([])"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


def _names(options: argparse.Namespace) -> list[str]:
    return [options.engine] if options.engine else list(CHECKED)


def _engines(options: argparse.Namespace) -> list[Any]:
    return [importlib.import_module(f"napari_gpubio.{name}.checks") for name in _names(options)]


def _panels(options: argparse.Namespace) -> list[Any]:
    """Modules with checks of panels if a window can be opened; otherwise a note that they are left out is printed."""
    names = [name for name in _names(options) if name in PANELS_WITH_CASES]
    if names and not can_open_window():
        tell([f"no window can be opened here, so the checks of dock widgets are left out ({', '.join(names)})"])
        return []
    return [importlib.import_module(f"napari_gpubio.{name}.gui.checks") for name in names]


def _run_panel_check(check: Any, device: Any) -> list[dict[str, Any]]:
    """Run the check of a dock widget; a failing window becomes a failed row and costs no other result."""
    try:
        return run_check(check, device)
    except GpuBioError as error:
        warn(f"{check.name}: {error}")
        return [{"case": check.name, "source": check.source, "quantity": str(error), "passed": False}]


def _row_text(row: dict[str, Any]) -> str:
    if "result" not in row:
        return f"{row['case']:42} FAILED"
    status = "ok" if row["passed"] else f"FAILED (more than {row['tolerance']:g})"
    return (
        f"{row['case']:42} {row['quantity']:22} {row['reference']:11.5g} {row['result']:11.5g} "
        f"{row['error']:10.2g}  {status}"
    )


def _check(options: argparse.Namespace) -> int:
    device = choose_device(options.device)
    rows: list[dict[str, Any]] = []
    show_at_once(f"on {device.describe()}")
    show_at_once(f"{'case':42} {'quantity':22} {'reference':>11} {'result':>11} {'error':>10}  status")
    for cases, run in [
        *((one, run_check) for one in _engines(options)),
        *((p, _run_panel_check) for p in _panels(options)),
    ]:
        for check in cases.CHECKS:
            for row in run(check, device):
                rows.append(row)
                show_at_once(_row_text(row))
    failed = sum(not row["passed"] for row in rows)
    show_at_once(f"{len(rows) - failed} of {len(rows)} passed")
    measured(device=device.describe(), machine=machine(), rows=rows)
    return 1 if failed else 0


def _bench(options: argparse.Namespace) -> int:
    device = choose_device(options.device)
    rows = [run_speed(speed, device) for engine in _engines(options) for speed in engine.SPEEDS]
    print(f"on {device.describe()}")
    for row in rows:
        print(f"{row['case']:55} {1e3 * row['seconds']:9.1f} ms  {row['per_second']:10.3g} {row['unit']}/s")
    measured(machine=machine(), rows=rows)
    return 0


def _warm(options: argparse.Namespace) -> int:
    def report(engine: str, seconds: float, functions: int) -> None:
        what = "failed" if functions < 0 else f"{functions} functions" if functions else "was ready"
        show_at_once(f"{engine:10} {what}, {seconds:.0f} s")
        measured(**{engine: {"functions": functions, "seconds": seconds}})

    return 0 if warm_engines((*_names(options), "gui"), report) else 1


def _info(_: argparse.Namespace) -> int:
    facts: dict[str, Any] = {"napari-gpubio": __version__, **machine(), **_optional_versions()}
    facts["devices"] = [d.describe() for d in list_devices()]
    facts["gpu"] = gpu_problem() or "used"
    facts["auto"] = choose_device().describe()
    measured(**facts)
    for name, value in facts.items():
        print(f"{name:16} {', '.join(value) if isinstance(value, list) else value}")
    return 0


def _optional_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("napari", "vispy", "nibabel", "trx-python", "PyQt6", "PySide6"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    raise SystemExit(main())
