"""The command-line verb ``geodesics``: tensors and an atlas in, matrices out."""

import argparse
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import (
    add_settings,
    check_outputs,
    draw_progress,
    read_settings,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.tracts.arguments import (
    TensorTracking,
    add_field,
    add_fods,
    add_reference,
    add_tracking,
    read_field,
    read_fod_field,
    read_tracking,
)
from napari_gpubio.tracts.connectome.geodesic import TRACKING, geodesic_connectome
from napari_gpubio.tracts.connectome.model import COUNT, Connectome
from napari_gpubio.tracts.connectome.settings import GeodesicSettings
from napari_gpubio.tracts.io.atlases import read_atlas
from napari_gpubio.tracts.io.tractograms import tractogram_target

_GEODESICS = """example:
  napari-gpubio geodesics dwi.nii.gz aparc+aseg.nii.gz --of alignment_fa --statistic max --out s.csv --best best.trx
"""
_TRACKING = TensorTracking(method=TRACKING)


def add_verbs(verbs: Any) -> None:
    """Add the verbs to the command line."""
    _add_geodesics(verbs)


def _add_geodesics(verbs: Any) -> None:
    verb = verbs.add_parser(
        "geodesics",
        help="shoot geodesics between all regions of an atlas",
        description="Shoot geodesics from each region of an atlas, and write a matrix of those that end in another.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_GEODESICS,
    )
    add_field(verb)
    add_fods(verb)
    _add_matrix(verb)
    verb.add_argument("--best", type=Path, help="tractogram of the best fibers of each pair")
    add_settings(verb, GeodesicSettings(), "geodesics")
    add_tracking(verb, _TRACKING)
    verb.set_defaults(run=run_geodesics)


def _add_matrix(verb: argparse.ArgumentParser) -> None:
    """Add the arguments that say which matrix is written where."""
    verb.add_argument("atlas", type=Path, help="label volume, with a table of names beside it")
    add_reference(verb)
    verb.add_argument("--of", default=COUNT, metavar="NUMBER", help="count, length_mm, or a number of the fibers")
    verb.add_argument("--statistic", choices=("sum", "mean", "min", "max"), help="default: sum of counts, else mean")
    verb.add_argument("--per-node-volume", action="store_true", help="divide by the mean volume of the two regions")
    verb.add_argument("--per-length", action="store_true", help="divide by the length of each fiber")
    verb.add_argument("--out", type=Path, help="CSV of the matrix, with the names of the regions")
    verb.add_argument("--npz", type=Path, help="npz of the whole connectome, from which every matrix can be made")


def run_geodesics(options: argparse.Namespace) -> int:
    """Shoot the geodesics, and write what the options name."""
    if options.out is None and options.npz is None and options.best is None and not options.json:
        raise InvalidInput("there is nothing to write; give --out for a matrix, --npz for all, --best, or --json")
    if options.best is not None:
        tractogram_target(options.best)
    outputs = {f"--{name}": getattr(options, name) for name in ("out", "npz", "best")}
    inputs = {name: getattr(options, name) for name in ("input", "atlas", "mask", "reference", "fods")}
    check_outputs(outputs, inputs, force=options.force)
    atlas, field = read_atlas(options.atlas, reference=options.reference), read_field(options)
    settings, tracking = read_settings(options, GeodesicSettings()), read_tracking(options)
    fods = None if options.fods is None else read_fod_field(options, options.fods)
    chosen = settings, tracking.directions, tracking.method
    found = geodesic_connectome(field, atlas, *chosen, fods=fods, device=options.device, progress=draw_progress)
    tell(found.notes)
    if options.npz is not None:
        found.save(options.npz)
        wrote(options.npz)
    if options.best is not None and found.best is not None:
        found.best.save(options.best)
        wrote(options.best)
    _write(options, found)
    return 0


def _write(options: argparse.Namespace, found: Connectome) -> None:
    """Write the matrix that the options name, and tell how much was found."""
    matrix = found.matrix(
        options.of,
        statistic=options.statistic,
        per_node_volume=options.per_node_volume,
        per_length=options.per_length,
    )
    fibers = len(found.numbers["length_mm"])
    print(f"{found.assigned:,} connections of {fibers:,} fibers, {len(found)} regions")
    measured(connections=found.assigned, fibers=fibers, labels=found.labels, regions=found.names, of=options.of)
    measured(matrix=matrix)
    if options.out is not None:
        found.save_csv(options.out, matrix)
        wrote(options.out)
