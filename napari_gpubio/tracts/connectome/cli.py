"""The command-line verb ``napari-gpubio connectome``: a tractogram and an atlas in, matrices out."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import add_settings, draw_progress, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.connectome.model import COUNT, Connectome
from napari_gpubio.tracts.connectome.run import connectome_steps
from napari_gpubio.tracts.connectome.settings import ConnectomeSettings
from napari_gpubio.tracts.io.atlases import read_atlas

_EXAMPLES = """examples:
  napari-gpubio connectome brain.trx aparc+aseg.nii.gz --out counts.csv
  napari-gpubio connectome brain.tck aparc+aseg.nii.gz --of length_mm --statistic mean --out lengths.csv --npz brain.npz
"""
_SAVE_EVERY = 10  # blocks


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "connectome",
        help="count the fibers between the regions of an atlas",
        description="Find which regions each fiber connects, and write a matrix, with the conventions of MRtrix. "
        "With --npz an interrupted run goes on where it was.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    verb.add_argument("input", type=Path, help="tractogram: .trk, .tck, .trx or .vtk; tck and trx may be of any size")
    verb.add_argument("atlas", type=Path, help="label volume, with a table of names beside it")
    verb.add_argument("--of", default=COUNT, metavar="NUMBER", help="count, length_mm, or a number of the fibers")
    verb.add_argument("--statistic", choices=("sum", "mean", "min", "max"), help="default: sum of counts, else mean")
    verb.add_argument("--per-node-volume", action="store_true", help="divide by the mean volume of the two regions")
    verb.add_argument("--per-length", action="store_true", help="divide by the length of each fiber")
    verb.add_argument("--weights", type=Path, help="text file with a weight for each fiber, as SIFT2 writes it")
    verb.add_argument("--out", type=Path, help="CSV of the matrix, with the names of the regions")
    verb.add_argument("--npz", type=Path, help="npz of the whole connectome, from which every matrix can be made")
    add_settings(verb, ConnectomeSettings(), "assignment")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make the connectome, and write what the options name."""
    if options.out is None and options.npz is None:
        raise InvalidInput("there is nothing to write; give --out for a matrix, or --npz for the whole connectome")
    weights = None if options.weights is None else _weights(options.weights)
    found = _connectome(options)
    matrix = found.matrix(
        options.of,
        statistic=options.statistic,
        per_node_volume=options.per_node_volume,
        per_length=options.per_length,
        weights=weights,
    )
    print(f"{found.assigned:,} connections of {len(found.numbers['length_mm']):,} fibers, {len(found)} regions")
    if options.out is not None:
        found.save_csv(options.out, matrix)
    return 0


def _connectome(options: argparse.Namespace) -> Connectome:
    """Make it, or go on with one that was interrupted; it is saved every few blocks."""
    settings, atlas = read_settings(options, ConnectomeSettings()), read_atlas(options.atlas)
    known = Connectome.load(options.npz) if options.npz is not None and options.npz.is_file() else None
    if known is not None and known.complete:
        known = None  # it is of another run, and made anew
    steps = connectome_steps(options.input, atlas, settings, known=known)
    blocks = 0
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            found: Connectome = end.value
            break
        draw_progress(step)
        blocks += 1
        if options.npz is not None and blocks % _SAVE_EVERY == 0 and step.make_preview is not None:
            step.preview.save(options.npz)
    if options.npz is not None:
        found.save(options.npz)
    return found


def _weights(path: Path) -> Any:
    try:
        return np.loadtxt(path, comments="#", ndmin=1).ravel()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the weights {path.name} cannot be read; give a text file of numbers") from error
