"""The command-line verb ``napari-gpubio bootstrap``: how far noise in a scan moves its fibers."""

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
from napari_gpubio.tracts.arguments import (
    StreamsByDefault,
    Tracking,
    add_scan_options,
    add_tracking,
    checked_tensors,
    fit_scan,
    read_scan,
    read_tracking,
)
from napari_gpubio.tracts.directions import Principal
from napari_gpubio.tracts.fods.model import FodField
from napari_gpubio.tracts.fods.response import read_response
from napari_gpubio.tracts.fods.run import deconvolve
from napari_gpubio.tracts.fods.settings import CsdSettings
from napari_gpubio.tracts.io.dwi import read_mask
from napari_gpubio.tracts.model import DiffusionScan
from napari_gpubio.tracts.seeds import ball
from napari_gpubio.tracts.settings import METHODS, AmplitudeMethod, Method
from napari_gpubio.tracts.tensors.settings import FitSettings
from napari_gpubio.tracts.uncertainty.model import FILES
from napari_gpubio.tracts.uncertainty.run import bootstrap_steps
from napari_gpubio.tracts.uncertainty.settings import BootstrapSettings

_TRACKING = Tracking()
_OF_DECONVOLUTION = ("lmax", "shell")
_LEVEL = 0.95  # of the intervals, as in their table


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "bootstrap",
        help="tell how certain fibers are",
        description="Draw the tensors of a scan again from the residuals of their fit, track from seeds in each draw, "
        "and write to a folder where fibers pass, how their numbers spread, and the fibers; or draw fiber orientation "
        "distributions (--deconvolve), where the method is sd_stream by default.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  napari-gpubio bootstrap dwi.nii.gz --seed 0 -5 22 --repeats 1000 --out callosum\n"
        "  napari-gpubio bootstrap dwi.nii.gz --deconvolve --response wm.txt --seed 0 -5 22 --out callosum",
    )
    verb.add_argument("input", type=Path, help="diffusion scan (NIfTI with bval and bvec beside it, .mif)")
    add_scan_options(verb)
    verb.add_argument("--mask", type=Path, help="brain mask on the same grid")
    verb.add_argument(
        "--seed", type=float, nargs=3, action="append", metavar=("X", "Y", "Z"), required=True, help="seed, world mm"
    )
    verb.add_argument("--radius-mm", type=float, default=0.0, help="radius of the ball of seed points around each seed")
    verb.add_argument("--points", type=int, default=1, help="seed points in each ball")
    verb.add_argument("--out", type=Path, required=True, help="folder for maps, fibers and the table of intervals")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.add_argument("--deconvolve", action="store_true", help="draw and track in FODs of one tissue, not in tensors")
    verb.add_argument("--response", type=Path, help="of a single fiber, for --deconvolve; by default estimated")
    others = [field.name for field in dataclasses.fields(CsdSettings) if field.name not in _OF_DECONVOLUTION]
    add_settings(verb, CsdSettings(lmax=8), "deconvolution", without=others)
    add_settings(verb, BootstrapSettings(), "bootstrap")
    add_settings(verb, FitSettings(), "tensor fit")
    add_tracking(verb, _TRACKING, deconvolve=StreamsByDefault())
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do the bootstrap, and write what it found to the folder."""
    if options.response is not None and not options.deconvolve:
        raise InvalidInput("--response is of a deconvolution; give --deconvolve, too")
    inputs = {name: getattr(options, name) for name in ("input", "mask", "response")}
    check_outputs({}, inputs, force=options.force, folders={"--out": (options.out, FILES)})
    if options.deconvolve and options.method is not None:
        usable = [kind for kind, one in METHODS.items() if one.works_in == "FODs"]
        if options.method not in usable:
            raise InvalidInput(f"the method is {options.method!r}, which is not for FODs; choose {', '.join(usable)}")
    scan, fit = read_scan(options), read_settings(options, FitSettings())
    field = _fods(options, scan) if options.deconvolve else fit_scan(options, scan)
    seeds = options.seed
    if options.points > 1:
        seeds = np.concatenate([ball(s, options.radius_mm, options.points, seed=n) for n, s in enumerate(seeds)])
    tracking, resampling = read_tracking(options), read_settings(options, BootstrapSettings())
    method = _method(options, tracking)
    with stop_at_interrupt() as stop:
        steps = bootstrap_steps(
            scan, seeds, tracking.directions, method, resampling, fit=fit, field=field, device=options.device, stop=stop
        )
        result = drive(steps, draw_progress)
    tell((*field.notes, *result.notes))
    result.save(options.out)
    wrote(options.out, f"{result.repeats} repeats in {options.out}\n{result.table().rstrip()}")
    intervals = {
        name: {**result.interval(name, _LEVEL)._asdict(), "fit": result.of_fit(name), "bias": result.bias(name)}
        for name in result.numbers
    }
    measured(repeats=result.repeats, level=_LEVEL, intervals=intervals)
    return 0 if result.complete else STOPPED


def _fods(options: argparse.Namespace, scan: DiffusionScan) -> FodField:
    """FODs of the scan in the mask and with the response of the options."""
    response = None if options.response is None else read_response(options.response)
    mask = None if options.mask is None else read_mask(options.mask, scan.shape, scan.affine)
    settings = CsdSettings(**{name: getattr(options, name) for name in _OF_DECONVOLUTION})
    checked_tensors(scan, mask, options.device)
    return deconvolve(scan, response, mask, settings, device=options.device, progress=draw_progress)


def _method(options: argparse.Namespace, tracking: Tracking) -> Method:
    """The method; the seed of the bootstrap is that of tracking, too, where directions are drawn."""
    method = tracking.method
    drawn = isinstance(method, AmplitudeMethod) and method.draws_in(method.directions(tracking.directions, Principal()))
    return dataclasses.replace(method, random_seed=options.random_seed) if drawn else method
