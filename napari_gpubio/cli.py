"""The command line: ``napari-gpubio demo | check | bench | info | warm``, and a verb for each engine."""

import argparse
import difflib
import functools
import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio import ENGINES, __version__
from napari_gpubio.core import real_samples
from napari_gpubio.core.checks import run_check, run_speed
from napari_gpubio.core.command_line import Parser, check_outputs
from napari_gpubio.core.completion import PrintCompletion
from napari_gpubio.core.device import choose_device, gpu_problem, list_devices, machine
from napari_gpubio.core.errors import GpuBioError, memory_in_words
from napari_gpubio.core.operations import session_verbs
from napari_gpubio.core.operations.command_help import Formatter, commands
from napari_gpubio.core.operations.commands import add_verbs
from napari_gpubio.core.report import (
    DEVICES,
    Exit,
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
from napari_gpubio.verbs import APPS, OF_ENGINES, app_of, engine_of, listed

_FOLDER = Path(__file__).parent
CHECKED = tuple(name for name in ENGINES if (_FOLDER / name / "checks.py").exists())
PANELS_WITH_CASES = tuple(name for name in ENGINES if (_FOLDER / name / "gui" / "checks.py").exists())
_OWN = ("demo", "check", "bench", "warm", "info", "sample", *session_verbs.VERBS)
_DEMO_FOLDER = Path("napari-gpubio-demo")
_REPORT = "this is a defect of the program; please report it with the lines above, and the command"
_ABOUT = (
    "Interactive brain and tissue physics in napari. VERB --help shows what a verb needs most, --help-all the rest."
)
_EXAMPLES = ("demo", "track dwi.nii.gz --seed 0 -5 22 --out callosum.trk")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status, one of `Exit`."""
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
        return Exit.PIPE_CLOSED
    except GpuBioError as error:
        print_error(f"napari-gpubio: {error}")
        return Exit.REFUSED
    except KeyboardInterrupt:
        print_error("napari-gpubio: stopped")
        return Exit.STOPPED
    except Exception:  # noqa: BLE001 - whatever it is, its status is not that of a check that failed
        print_error(f"{traceback.format_exc()}napari-gpubio: {_REPORT}")
        return Exit.DEFECT
    return int(status or Exit.DONE)


def make_parser(arguments: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of verbs, whose options have a ``run`` that takes them and returns the exit status.

    Where the arguments name a verb of an engine, no other engine is imported, and none for a help that has no more than
    the names of verbs; without arguments, it has the verbs of all.
    """
    return _parsers(arguments)[0]


def _parsers(arguments: Sequence[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """The parser, and what verbs were added to."""
    has_all = arguments is None or "--help-all" in arguments
    named = next(iter(arguments or ()), "")
    named = "" if named.startswith("-") else named  # of the program, which imports nothing
    app = app_of(arguments or ())
    engine = None if app else engine_of(named)
    statuses = "\n".join(f"  {int(one):3}  {one.meaning}" for one in Exit)
    parser = Parser(
        prog="napari-gpubio",
        usage="%(prog)s VERB [options]",
        description=_ABOUT,
        epilog=f"{'' if has_all else _every_verb()}{commands(_EXAMPLES)}\n\nexit status:\n{statuses}",
        formatter_class=Formatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--help-all", action="help", help="show a line for each verb")
    parser.add_argument("--version", action="version", version=f"napari-gpubio {__version__}")
    parser.add_argument("--print-completion", action=PrintCompletion, make=functools.partial(_parsers, None))
    hides = {} if has_all else {"help": argparse.SUPPRESS}
    verbs = parser.add_subparsers(title="verbs", prog="napari-gpubio", required=True, metavar="VERB", **hides)
    _add_own(verbs)
    session_verbs.add_verbs(verbs)
    if app or (has_all and not named):
        from napari_gpubio.workflows.bids.app import add_apps

        add_apps(verbs, [app] if app else [one for one in APPS if engine_of(one) is None])
    for one in (engine,) if engine is not None else tuple(OF_ENGINES) if has_all and not named else ():
        add_verbs(verbs, importlib.import_module(f"napari_gpubio.{one}.operations"))
    add_common(verbs.choices)
    if named and engine is None and named not in verbs.choices:
        close = difflib.get_close_matches(
            named, [*_OWN, *APPS, *(one for each in OF_ENGINES for one in listed(each))], 2
        )
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        parser.error(f"there is no verb {named[:60]!r}; {hint}napari-gpubio --help lists all")
    return parser, verbs


def _every_verb() -> str:
    """Names of all verbs, by engine."""
    rows = {"to begin": _OWN, **{engine: listed(engine) for engine in OF_ENGINES}, "BIDS datasets": APPS}
    return "\n".join(["verbs:", *(f"  {name:16} {', '.join(verbs)}" for name, verbs in rows.items()), "", ""])


def _add_own(verbs: Any) -> None:
    """Add the verbs that are of no engine, and of no record."""

    def add(name: str, about: str, run: Callable[[argparse.Namespace], int], *examples: str) -> Any:
        verb = verbs.add_parser(name, help=about, epilog=commands(examples), formatter_class=Formatter)
        verb.set_defaults(run=run)
        return verb

    about = "open napari with the sample brain, a click already made, fibers on screen"
    demo = add("demo", about, _demo, "demo", "demo --headless --out pictures")
    demo.add_argument("--headless", action="store_true", help="no window: save a picture and the fibers instead")
    demo.add_argument("--out", type=Path, default=_DEMO_FOLDER, help="folder for --headless (default: %(default)s)")
    about = "run the engines' published reference cases on this machine"
    check = add("check", about, _check, "check", "check fibers --device cpu --json")
    bench = add("bench", "measure the engines' speed cases on this machine", _bench, "bench light --json")
    about = "compile the CPU backends ahead, so that nothing waits for it later"
    warm = add("warm", about, _warm, "warm", "warm fibers")
    for verb in (check, bench, warm):
        about = f"one of {', '.join(CHECKED)}; all of them if left out"
        verb.add_argument("engine", nargs="?", choices=CHECKED, metavar="ENGINE", help=about)
    for verb in (demo, check, bench):
        verb.add_argument("--device", default="auto", help=DEVICES)
    add("info", "devices, versions, and why a GPU is not used", _info, "info --json")
    real_samples.add_verb(verbs)


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
                rows.append({"part": cases.__name__.split(".")[1], **row})
                show_at_once(_row_text(row))
    failed = sum(not row["passed"] for row in rows)
    show_at_once(f"{len(rows) - failed} of {len(rows)} passed")
    measured(device=device.describe(), machine=machine(), rows=rows)
    return Exit.NOT_PASSED if failed else Exit.DONE


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

    return Exit.DONE if warm_engines((*_names(options), "gui"), report) else Exit.NOT_PASSED


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
