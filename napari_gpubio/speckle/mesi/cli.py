"""Command ``napari-gpubio mesi``: a multi-exposure fit of a stack of frames."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import (
    STOPPED,
    add_settings,
    check_outputs,
    draw_progress,
    read_settings,
    stop_at_interrupt,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.speckle.io import read_frames
from napari_gpubio.speckle.mesi.calibration import measure_beta
from napari_gpubio.speckle.mesi.files import UNITS, write_fit
from napari_gpubio.speckle.mesi.model import (
    CYCLES,
    ORDERS,
    MesiRecipe,
    MesiSettings,
    exposure_contrast,
    parse_exposures,
)
from napari_gpubio.speckle.mesi.run import fit_mesi_steps
from napari_gpubio.speckle.options import add_frames, add_noise, frames_of, read_noise
from napari_gpubio.speckle.registration import register
from napari_gpubio.speckle.run import contrast_steps
from napari_gpubio.speckle.settings import ContrastSettings

_EXAMPLES = """examples:
  napari-gpubio mesi frames.tif --exposures-ms 0.05,0.1,0.5,1,5,10,50 --out fit
  napari-gpubio mesi frames.tif --exposures-ms 0.05,0.1,0.5,1,5,10,50 --out fit --static-target paper.tif

Files are named fit_tau_ms.tif, fit_tau_error_ms.tif, and so on. Notes say what the exposures cannot tell.
Ctrl-C ends a run early: pixels that were not reached are NaN."""
_PARTS = ("ict", "tau_ms", "tau_error_ms", "rho", "rho_error", "beta", "beta_error", "mask")


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "mesi",
        help="multi-exposure speckle imaging",
        description="Fit correlation time, moving fraction and β to speckle contrast at several exposures.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    add_frames(verb)
    verb.add_argument("--exposures-ms", required=True, metavar="MS,MS,...", help="exposures, increasing")
    verb.add_argument("--order", choices=tuple(ORDERS), default=CYCLES, help="order of several frames of each exposure")
    verb.add_argument("--out", type=Path, required=True, metavar="NAME", help="begin of the names of the files")
    verb.add_argument("--parts", nargs="+", choices=tuple(UNITS), default=_PARTS, help="maps to write")
    verb.add_argument(
        "--static-target", type=Path, metavar="FILE", help="frames of a static target: β is measured there"
    )
    verb.add_argument("--window", type=int, default=ContrastSettings().window, help="edge of the square of pixels")
    verb.add_argument("--register", action="store_true", help="shift frames by whole pixels onto the first one")
    verb.add_argument("--device", default="auto", help="of the contrast: auto, cpu, cuda:0, cuda:all")
    add_settings(verb, MesiSettings(), "fit")
    add_noise(verb)
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    outputs = {part: options.out.with_name(f"{options.out.name}_{part}.tif") for part in options.parts}
    inputs = {name: getattr(options, name) for name in ("frames_in", "static_target", "dark")}
    check_outputs({f"the file of {part}": path for part, path in outputs.items()}, inputs, force=options.force)
    settings, noise = ContrastSettings(window=options.window, index="squared"), read_noise(options)
    mesi = MesiRecipe(
        exposures_ms=parse_exposures(options.exposures_ms), order=options.order,
        settings=read_settings(options, MesiSettings()),
    )  # fmt: skip
    frames = frames_of(options)
    notes: list[str] = []
    if frames.ndim != 3:
        raise InvalidInput(f"{options.frames_in.name} holds a single frame; give a stack with a frame of each exposure")
    mesi.repeats(len(frames))
    if options.static_target is not None:
        if not mesi.settings.fit_beta:
            raise InvalidInput("--static-target measures β; leave --beta out")
        target = measure_beta(read_frames(options.static_target), settings, noise=noise, device=options.device)
        notes += target.notes
        tell([f"β = {target.beta:.4g} ± {target.error:.2g}, measured on {options.static_target.name}"])
        measured(beta={"value": target.beta, "error": target.error})
        mesi = dataclasses.replace(mesi, settings=target.applied_to(mesi.settings))
    registered = register(frames) if options.register else None
    with stop_at_interrupt() as stop:
        shown = frames if registered is None else registered.frames
        maps = drive(contrast_steps(shown, settings, noise=noise, device=options.device, stop=stop), draw_progress)
        if registered is not None:
            registered.clear_outside(maps)
            notes += registered.notes
        steps = fit_mesi_steps(exposure_contrast(maps, mesi), mesi.exposures_ms, mesi.settings, stop=stop)
        fit = drive(steps, draw_progress)
    tell((*notes, *maps.notes, *fit.notes))
    for part, path in outputs.items():
        write_fit(path, fit, part)
        wrote(path)
    fitted = {part: np.asarray(getattr(fit, part)) for part in options.parts if part != "mask"}
    measured(median={part: float(np.nanmedian(values)) for part, values in fitted.items() if np.isfinite(values).any()})
    measured(units={part: UNITS[part] for part in fitted}, exposures_ms=mesi.exposures_ms)
    return 0 if maps.complete and fit.complete else STOPPED
