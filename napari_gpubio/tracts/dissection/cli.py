"""The command-line verb ``napari-gpubio dissect``: the fibers that fit regions and numbers, and their maps."""

import argparse
import dataclasses
import functools
import operator
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import draw_progress
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts import maps
from napari_gpubio.tracts.arguments import REGION_HELP, number_argument, region_argument
from napari_gpubio.tracts.dissection.conditions import Condition, ends_in, number, through
from napari_gpubio.tracts.dissection.run import dissect
from napari_gpubio.tracts.io.tractograms import read_tractogram, write_tractogram
from napari_gpubio.tracts.model import Tractogram

_EXAMPLES = f"""{REGION_HELP}

examples:
  napari-gpubio dissect brain.trx --include stem.nii.gz --ends aparc.nii.gz:ctx-lh-precentral --out cst.trx
  napari-gpubio dissect brain.tck --include sphere:0,30,8,6 --exclude box:-5,-90,-60,5,0,80 --range length_mm 40 200 \\
      --out genu.trk --density genu.nii.gz"""
_MAPS = {"density": "count", "lengths": "length_mm", "end_points": "ends"}


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "dissect",
        help="choose fibers by regions and numbers",
        description="Write the fibers that pass, avoid and end in regions; all conditions must hold.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    verb.add_argument("input", type=Path, help="tractogram: .trk, .tck, .trx or .vtk")
    verb.add_argument("--include", action="append", default=[], metavar="REGION", help="fibers pass it")
    verb.add_argument("--exclude", action="append", default=[], metavar="REGION", help="fibers do not pass it")
    verb.add_argument("--any", action="append", default=[], metavar="REGION", help="fibers pass at least one of these")
    verb.add_argument("--ends", action="append", default=[], metavar="REGION", help="fibers have an end in it")
    verb.add_argument("--both-ends", action="append", default=[], metavar="REGION", help="fibers have both ends in it")
    verb.add_argument(
        "--range",
        action="append",
        default=[],
        nargs=3,
        metavar=("NUMBER", "LOW", "HIGH"),
        help="a number of the fibers (length_mm, mean_fa, ...) lies between these",
    )
    verb.add_argument("--out", type=Path, help="tractogram of the fibers that are kept")
    verb.add_argument("--density", type=Path, help="NIfTI: how many of them pass each voxel")
    verb.add_argument("--lengths", type=Path, help="NIfTI: their length in each voxel, mm")
    verb.add_argument("--end-points", type=Path, help="NIfTI: how many of their ends lie in each voxel")
    verb.add_argument("--grid", type=Path, help="volume whose grid the maps get; else that of the tractogram")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Dissect, and write what the options name."""
    wanted = {name: path for name in _MAPS if (path := getattr(options, name)) is not None}
    if options.out is None and not wanted:
        raise InvalidInput("there is nothing to write; give --out for fibers, or --density, --lengths or --end-points")
    fibers, condition = read_tractogram(options.input), _condition(options)
    kept = fibers
    if condition is not None:
        kept = fibers.select(dissect(fibers, condition, device=options.device, progress=draw_progress))
        kept = dataclasses.replace(kept, parameters={**kept.parameters, "dissection": condition.described()})
    print(f"{len(kept):,} of {len(fibers):,} fibers")
    if options.out is not None:
        write_tractogram(options.out, kept)
    shape, affine = _grid(options.grid, kept)
    for name, path in wanted.items():
        values = maps.density(kept, _MAPS[name], shape=shape, affine=affine, device=options.device)
        write_volume(path, values.astype(np.float32 if values.dtype.kind == "f" else np.int32), affine)
    return 0


def _grid(path: Path | None, fibers: Tractogram) -> tuple[tuple[int, int, int], Any]:
    if path is None:
        return fibers.shape, fibers.affine
    from napari_gpubio.tracts.io.dwi import read_array

    array, affine = read_array(path)
    nx, ny, nz = array.shape[:3]
    return (nx, ny, nz), affine


def _condition(options: argparse.Namespace) -> Condition | None:
    """All that the options demand, or None where they demand nothing."""
    parts: list[Condition] = []
    parts += [through(region_argument(text)) for text in options.include]
    parts += [~through(region_argument(text)) for text in options.exclude]
    parts += [ends_in(region_argument(text)) for text in options.ends]
    parts += [ends_in(region_argument(text), ends="both") for text in options.both_ends]
    if options.any:
        parts.append(functools.reduce(operator.or_, (through(region_argument(text)) for text in options.any)))
    parts += [number(name, number_argument(low), number_argument(high)) for name, low, high in options.range]
    return functools.reduce(operator.and_, parts) if parts else None
