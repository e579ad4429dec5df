"""The command-line verb ``napari-gpubio connect``: the routes between two regions."""

import argparse
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import add_settings, check_outputs, draw_progress, read_settings
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.tracts.arguments import (
    REGION_HELP,
    TensorTracking,
    add_field,
    add_fods,
    add_reference,
    add_tracking,
    read_field,
    read_fod_field,
    read_tracking,
    region_argument,
)
from napari_gpubio.tracts.io.tractograms import tractogram_target
from napari_gpubio.tracts.routes.model import COLUMNS
from napari_gpubio.tracts.routes.run import connect
from napari_gpubio.tracts.routes.settings import ConnectSettings

_EXAMPLES = f"""{REGION_HELP}

example:
  napari-gpubio connect dwi.nii.gz aparc.nii.gz:ctx-lh-precentral aparc.nii.gz:Brain-Stem --out cst.trx --table cst.csv
"""
_SHOWN = ("route", "fibers", "score", "alignment_fa", "length_mm", "weakest_link", "eudx_distance_mm")
_PRINTED = 10  # rows
_TRACKING = TensorTracking()


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "connect",
        help="find the routes between two regions",
        description="Shoot geodesics from one region, keep those that reach the other, and rank their routes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    add_field(verb)
    add_fods(verb)
    verb.add_argument("source", help="region where fibers start")
    verb.add_argument("target", help="region where they end")
    add_reference(verb)
    verb.add_argument("--out", type=Path, help="tractogram of all fibers, with the number of their route: .trx, .trk")
    verb.add_argument("--table", type=Path, help="CSV: one row for each route")
    verb.add_argument("--sort-by", default="score", choices=list(COLUMNS), help="column that ranks the routes")
    add_settings(verb, ConnectSettings(), "connections")
    add_tracking(verb, _TRACKING)
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Connect the regions, print the best routes, and write what the options name."""
    source, target = (region_argument(one, options.reference) for one in (options.source, options.target))
    inputs = {name: getattr(options, name) for name in ("input", "mask", "reference", "fods")}
    if options.out is not None:
        tractogram_target(options.out)
    check_outputs({"--out": options.out, "--table": options.table}, inputs, force=options.force)
    settings, tracking = read_settings(options, ConnectSettings()), read_tracking(options)
    field = read_field(options)
    fods = None if options.fods is None else read_fod_field(options, options.fods)
    chosen = settings, tracking.directions, tracking.method
    routes = connect(field, source, target, *chosen, fods=fods, device=options.device, progress=draw_progress)
    print(routes.message)
    tell(routes.notes)
    if len(routes):
        print(*(f"{name:>16}" for name in _SHOWN))
    rows = routes.table(options.sort_by)
    for row in rows[:_PRINTED]:
        print(*(f"{row[name]:16.5g}" for name in _SHOWN))
    measured(message=routes.message, routes=rows)
    if options.table is not None:
        routes.save_csv(options.table, options.sort_by)
        wrote(options.table)
    if options.out is not None:
        routes.tractogram.save(options.out)
        wrote(options.out)
    return 0
