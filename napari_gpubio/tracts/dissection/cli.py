"""The command-line verb ``napari-gpubio dissect``: the fibers that fit regions and numbers, and their maps.

A tractogram goes through in blocks, so it may be larger than memory.
"""

import argparse
import dataclasses
import functools
import operator
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import check_endings, check_outputs, draw_progress
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import measured, wrote
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, write_volume
from napari_gpubio.tracts import maps
from napari_gpubio.tracts.arguments import REGION_HELP, add_reference, number_argument, region_argument
from napari_gpubio.tracts.dissection.conditions import Condition, ends_in, number, through
from napari_gpubio.tracts.dissection.run import dissect
from napari_gpubio.tracts.io.blocks import blocks_of, source_of, write_blocks
from napari_gpubio.tracts.io.tractograms import tractogram_target
from napari_gpubio.tracts.model import Tractogram

_EXAMPLES = f"""{REGION_HELP}

examples:
  napari-gpubio dissect brain.trx --include stem.nii.gz --ends aparc.nii.gz:ctx-lh-precentral --out cst.trx
  napari-gpubio dissect brain.tck --include sphere:0,30,8,6 --exclude box:-5,-90,-60,5,0,80 --range length_mm 40 200 \\
      --out genu.trk --density genu.nii.gz"""
_MAPS = {"density": "count", "lengths": "length_mm", "end_points": "ends", "mask": "count"}  # of an option: kind


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "dissect",
        help="choose fibers by regions and numbers",
        description="Write the fibers that pass, avoid and end in regions; all conditions must hold.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    verb.add_argument(
        "input", type=Path, help="tractogram (.trk, .tck, .trx, .vtk, .tt.gz, ...); tck and trx may be of any size"
    )
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
    verb.add_argument("--mask", type=Path, help="NIfTI: the voxels that they pass")
    verb.add_argument("--grid", type=Path, help="volume whose grid the maps get; else that of the tractogram")
    add_reference(verb)
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Dissect, and write what the options name."""
    wanted = {name: path for name in _MAPS if (path := getattr(options, name)) is not None}
    if options.out is None and not wanted:
        raise InvalidInput(
            "there is nothing to write; give --out for fibers, or --density, --lengths, --end-points, --mask"
        )
    outputs = {f"--{name.replace('_', '-')}": path for name, path in wanted.items()}
    inputs = {"the tractogram": options.input, "--grid": options.grid, "--reference": options.reference}
    check_endings(outputs, NIFTI_SUFFIXES)
    if options.out is not None:
        tractogram_target(options.out)
    check_outputs({"--out": options.out, **outputs}, inputs, force=options.force)
    fibers = _Run(options, wanted)
    if options.out is None:
        deque(fibers.kept(), maxlen=0)
    else:
        write_blocks(options.out, fibers.kept())
    print(f"{fibers.count:,} of {fibers.total:,} fibers")
    measured(kept=fibers.count, fibers=fibers.total)
    if options.out is not None:
        wrote(options.out)
    for name, path in wanted.items():
        values, affine = fibers.maps[name]
        kept = values > 0 if name == "mask" else values
        kinds = {"f": np.float32, "b": np.uint8}
        write_volume(path, kept.astype(kinds.get(kept.dtype.kind, np.int32)), affine)
        wrote(path)
    return 0


class _Run:
    """Goes through the fibers of a file once, block by block; adds up their maps on the way."""

    def __init__(self, options: argparse.Namespace, wanted: Iterable[str]) -> None:
        self._options, self._wanted = options, list(wanted)
        self._condition, self._grid = _condition(options), _grid(options.grid)
        self.total = self.count = 0
        self.maps: dict[str, tuple[Any, Any]] = {}  # values and affine by the name of the option

    def kept(self) -> Iterator[Tractogram]:
        """Yield the fibers of each block that fit."""
        done, condition = 0, self._condition
        for total, block in blocks_of(source_of(self._options.input, self._options.reference)):
            kept = block
            if condition is not None:
                kept = block.select(dissect(block, condition, device=self._options.device))
                kept = dataclasses.replace(kept, parameters={**kept.parameters, "dissection": condition.described()})
            self._add_maps(kept)
            done, self.total, self.count = done + len(block), total, self.count + len(kept)
            draw_progress(Step(done, total, "fibers"))
            yield kept

    def _add_maps(self, fibers: Tractogram) -> None:
        shape, affine = self._grid or (fibers.shape, fibers.affine)
        for name in self._wanted:
            values = maps.density(fibers, _MAPS[name], shape=shape, affine=affine, device=self._options.device)
            before, _ = self.maps.get(name, (0, None))
            self.maps[name] = before + values, affine


def _grid(path: Path | None) -> tuple[tuple[int, int, int], Any] | None:
    if path is None:
        return None
    from napari_gpubio.tracts.io.dwi import read_array

    array, affine = read_array(path)
    nx, ny, nz = array.shape[:3]
    return (nx, ny, nz), affine


def _condition(options: argparse.Namespace) -> Condition | None:
    """All that the options demand, or None where they demand nothing."""
    parts: list[Condition] = []
    region = functools.partial(region_argument, reference=options.reference)
    parts += [through(region(text)) for text in options.include]
    parts += [~through(region(text)) for text in options.exclude]
    parts += [ends_in(region(text)) for text in options.ends]
    parts += [ends_in(region(text), ends="both") for text in options.both_ends]
    if options.any:
        parts.append(functools.reduce(operator.or_, (through(region(text)) for text in options.any)))
    parts += [number(name, number_argument(low), number_argument(high)) for name, low, high in options.range]
    return functools.reduce(operator.and_, parts) if parts else None
