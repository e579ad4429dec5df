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
from napari_gpubio.tracts.arguments import add_scan_options, checked_tensors, fit_scan, read_scan
from napari_gpubio.tracts.fods.model import FodField
from napari_gpubio.tracts.fods.response import read_response
from napari_gpubio.tracts.fods.run import deconvolve
from napari_gpubio.tracts.fods.settings import CsdSettings
from napari_gpubio.tracts.io.dwi import read_mask
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.run import check_method
from napari_gpubio.tracts.seeds import ball
from napari_gpubio.tracts.settings import FOD_METHODS, Directions, TrackSettings
from napari_gpubio.tracts.tensors.settings import FitSettings
from napari_gpubio.tracts.uncertainty.model import FILES
from napari_gpubio.tracts.uncertainty.run import bootstrap_steps
from napari_gpubio.tracts.uncertainty.settings import BootstrapSettings

_ONE_FIBER_A_SEED = Directions(kind="principal")
_USUAL_IN_FODS = ("method", "step_mm", "min_length_mm", "max_length_mm")  # differ from tensors
_OF_DECONVOLUTION = ("lmax", "shell")
_LEVEL = 0.95  # of the intervals, as in their table


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "bootstrap",
        help="tell how certain fibers are",
        description="Draw the tensors of a scan again from the residuals of their fit, track from seeds in each draw, "
        "and write to a folder where fibers pass, how their numbers spread, and the fibers; or draw fiber orientation "
        "distributions (--deconvolve), where method, step and lengths that are not given are those of sd_stream.",
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
    add_settings(verb, _ONE_FIBER_A_SEED, "directions")
    add_settings(verb, TrackSettings(), "tracking", without=("random_seed",))  # that of the bootstrap serves
    verb.set_defaults(run=run, **dict.fromkeys(_USUAL_IN_FODS))  # None: tensors and FODs have their own


def run(options: argparse.Namespace) -> int:
    """Do the bootstrap, and write what it found to the folder."""
    if options.response is not None and not options.deconvolve:
        raise InvalidInput("--response is of a deconvolution; give --deconvolve, too")
    inputs = {name: getattr(options, name) for name in ("input", "mask", "response")}
    check_outputs({}, inputs, force=options.force, folders={"--out": (options.out, FILES)})
    if options.deconvolve and options.method is not None:
        check_method(options.method, in_fods=True)
    scan, fit = read_scan(options), read_settings(options, FitSettings())
    field = _fods(options, scan) if options.deconvolve else fit_scan(options, scan)
    seeds = options.seed
    if options.points > 1:
        seeds = np.concatenate([ball(s, options.radius_mm, options.points, seed=n) for n, s in enumerate(seeds)])
    directions = read_settings(options, _ONE_FIBER_A_SEED)
    settings = _track_settings(options, field, directions.kind)
    resampling = read_settings(options, BootstrapSettings())
    with stop_at_interrupt() as stop:
        steps = bootstrap_steps(
            scan, seeds, directions, settings, resampling, fit=fit, field=field, device=options.device, stop=stop
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


def _track_settings(options: argparse.Namespace, field: TensorField | FodField, kind: str) -> TrackSettings:
    """Settings of the options; what was not given is what is usual in tensors, or in FODs with such voxels.

    The seed of the bootstrap is that of tracking, too, where directions of a ``kind`` are drawn.
    """
    usual = TrackSettings()
    if isinstance(field, FodField):
        usual = TrackSettings.usual(options.method or "sd_stream", field.voxel_sizes_mm)
    is_drawn = usual.method in FOD_METHODS or kind == "fod"
    return read_settings(options if is_drawn else argparse.Namespace(**vars(options) | {"random_seed": None}), usual)
