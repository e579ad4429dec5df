"""The command-line verb ``napari-gpubio bundles``: numbers and profiles of bundles, of many subjects, as tables."""

import argparse
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import STOPPED, check_outputs, draw_progress, stop_at_interrupt
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.tracts.bundles.group import find_members, group
from napari_gpubio.tracts.bundles.profile import WEIGHTINGS

_EXAMPLES = """A subject is what a path calls sub-... (with ses-...), else the folder of the file. An image is one
file for all subjects, or a pattern (* and ?) with one file for each.

examples:
  napari-gpubio bundles AF_left.trx --image FA=fa.nii.gz -o table.csv
  napari-gpubio bundles sub-*/AF_left.trx sub-*/CST_left.trx --image FA=sub-*/fa.nii.gz --image MD=sub-*/md.nii.gz \\
      -o table.csv --profiles profiles.csv"""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "bundles",
        help="numbers and profiles of bundles, as tables",
        description="Write count, volume, lengths and means of images of bundles, and profiles along them, as CSV.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    verb.add_argument("bundles", nargs="+", help="tractograms, one bundle each: .trk, .tck, .trx or .vtk")
    verb.add_argument("--image", action="append", default=[], metavar="NAME=FILE", help="image to measure, such as FA")
    verb.add_argument("-o", "--out", type=Path, help="CSV or TSV: a row for each bundle of each subject")
    verb.add_argument("--profiles", type=Path, help="CSV or TSV: a row for each subject, bundle, node and image")
    verb.add_argument("--nodes", type=int, default=100, help="nodes of a profile (default: 100)")
    verb.add_argument(
        "--weighting", choices=WEIGHTINGS, default="afq",
        help="of fibers in a profile: by nearness to the bundle's core (afq), equal (none), as DIPY (default: afq)",
    )  # fmt: skip
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the tables that the options name."""
    if options.out is None and options.profiles is None and not options.json:
        raise InvalidInput("there is nothing to write; give --out for a table, --profiles for profiles, or --json")
    if options.profiles is not None and not options.image:
        raise InvalidInput("a profile needs an image; give --image FA=fa.nii.gz")
    members = find_members(options.bundles, _images(options.image))
    inputs = {str(path): path for member in members for path in (member.path, *member.images.values())}
    check_outputs({"--out": options.out, "--profiles": options.profiles}, inputs, force=options.force)
    with stop_at_interrupt() as stop:
        found = group(members, nodes=options.nodes, weighting=options.weighting, stop=stop, progress=draw_progress)
    tell(found.notes)
    for path, table in ((options.out, found.summary), (options.profiles, found.profiles)):
        if path is not None:
            table.write(path)
            wrote(path, f"{len(table):,} rows in {path}")
    measured(bundles=found.summary.records(), profiles=found.profiles.records())
    return 0 if found.complete else STOPPED


def _images(arguments: list[str]) -> dict[str, str]:
    images: dict[str, str] = {}
    for argument in arguments:
        name, equals, pattern = argument.partition("=")
        if not (name and equals and pattern):
            raise InvalidInput(f"--image is {argument!r}; give a name and a file, such as FA=fa.nii.gz")
        if name in images:
            raise InvalidInput(f"there are two images called {name}; give each its own name")
        images[name] = pattern
    return images
