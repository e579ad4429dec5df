"""The command-line verb ``napari-gpubio bootstrap``: how far noise in a scan moves its fibers."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import STOPPED, add_settings, draw_progress, read_settings, stop_at_interrupt
from napari_gpubio.core.steps import drive
from napari_gpubio.tracts.arguments import fit_scan
from napari_gpubio.tracts.io.dwi import read_dwi
from napari_gpubio.tracts.seeds import ball
from napari_gpubio.tracts.settings import Directions, TrackSettings
from napari_gpubio.tracts.tensors.settings import FitSettings
from napari_gpubio.tracts.uncertainty.run import bootstrap_steps
from napari_gpubio.tracts.uncertainty.settings import BootstrapSettings

_ONE_FIBER_A_SEED = Directions(kind="principal")


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "bootstrap",
        help="tell how certain fibers are",
        description="Draw the tensors of a scan again from the residuals of their fit, track from seeds in each draw, "
        "and write to a folder where fibers pass, how their numbers spread, and the fibers.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  napari-gpubio bootstrap dwi.nii.gz --seed 0 -5 22 --repeats 1000 --out callosum",
    )
    verb.add_argument("input", type=Path, help="diffusion scan (NIfTI with bval and bvec beside it, .mif)")
    verb.add_argument("--mask", type=Path, help="brain mask on the same grid")
    verb.add_argument(
        "--seed", type=float, nargs=3, action="append", metavar=("X", "Y", "Z"), required=True, help="seed, world mm"
    )
    verb.add_argument("--radius-mm", type=float, default=0.0, help="radius of the ball of seed points around each seed")
    verb.add_argument("--points", type=int, default=1, help="seed points in each ball")
    verb.add_argument("--out", type=Path, required=True, help="folder for maps, fibers and the table of intervals")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_settings(verb, BootstrapSettings(), "bootstrap")
    add_settings(verb, FitSettings(), "tensor fit")
    add_settings(verb, _ONE_FIBER_A_SEED, "directions")
    add_settings(verb, TrackSettings(), "tracking")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do the bootstrap, and write what it found to the folder."""
    scan, fit = read_dwi(options.input), read_settings(options, FitSettings())
    field = fit_scan(options, scan)
    seeds = options.seed
    if options.points > 1:
        seeds = np.concatenate([ball(s, options.radius_mm, options.points, seed=n) for n, s in enumerate(seeds)])
    directions, settings = read_settings(options, _ONE_FIBER_A_SEED), read_settings(options, TrackSettings())
    resampling = read_settings(options, BootstrapSettings())
    with stop_at_interrupt() as stop:
        steps = bootstrap_steps(
            scan, seeds, directions, settings, resampling, fit=fit, field=field, device=options.device, stop=stop
        )
        result = drive(steps, draw_progress)
    for note in (*field.notes, *result.notes):
        print(note, file=sys.stderr)
    result.save(options.out)
    print(f"{result.repeats} repeats in {options.out}\n{result.table()}", end="")
    return 0 if result.complete else STOPPED
