"""Command ``napari-gpubio speckle``: contrast and flow of a stack of frames."""

import argparse
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from napari_gpubio.core.command_line import (
    STOPPED,
    add_settings,
    check_outputs,
    draw_progress,
    read_settings,
    stop_at_interrupt,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import tell, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.speckle.io import TIFF_SUFFIXES, MapFile, read_regions
from napari_gpubio.speckle.mesi import cli as mesi
from napari_gpubio.speckle.options import add_frames, add_noise, frames_of, read_noise
from napari_gpubio.speckle.region_options import add_region_options, region_tables, write_region_tables
from napari_gpubio.speckle.regions import CurveTaker
from napari_gpubio.speckle.registration import ClearingTaker, register_steps
from napari_gpubio.speckle.run import baseline_k2_steps, contrast_steps
from napari_gpubio.speckle.settings import ContrastSettings, NoiseModel
from napari_gpubio.speckle.stored import part_of

if TYPE_CHECKING:
    from napari_gpubio.speckle.model import MapTaker

_EXAMPLES = """examples:
  napari-gpubio speckle frames.tif --contrast k.tif --index-out sfi.tif --window 7 --exposure-ms 5
  napari-gpubio speckle run.00000 --mode temporal --frames 25 --blocks --contrast k.tif
  napari-gpubio speckle frames.tif --index relative --baseline 0 50 --index-out flow.tif
  napari-gpubio speckle frames.tif --regions labels.tif --fps 120 --curves curves.csv --pulsatility pulse.csv

Frames are read, and maps written, a few at a time: a stack may be larger than the memory.
Ctrl-C ends a run early: the files have the maps that were finished."""
Array = npt.NDArray[Any]


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "speckle",
        help="speckle contrast and flow",
        description="Compute laser speckle contrast and an index of flow of a stack of frames.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    add_frames(verb)
    verb.add_argument("--contrast", type=Path, metavar="FILE", help="write K: .tif, float32")
    verb.add_argument("--index-out", type=Path, metavar="FILE", help="write the index: .tif, float32")
    verb.add_argument("--mask-out", type=Path, metavar="FILE", help="write the validity mask: .tif, uint8")
    verb.add_argument(
        "--baseline", type=int, nargs=2, metavar=("FIRST", "LAST"), help="frames of the baseline, counted from 0"
    )
    verb.add_argument("--register", action="store_true", help="shift frames by whole pixels onto the first one")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_region_options(verb)
    add_settings(verb, ContrastSettings(), "contrast")
    add_noise(verb)
    verb.set_defaults(run=run)
    mesi.add_verb(verbs)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    tables = region_tables(options)
    outputs = _outputs(options, has_regions=options.regions is not None)
    inputs = {name: getattr(options, name) for name in ("frames_in", "regions", "dark")}
    check_outputs(outputs | tables, inputs, force=options.force)
    settings, noise = read_settings(options, ContrastSettings()), read_noise(options)
    frames = frames_of(options)
    regions = {} if options.regions is None else read_regions(options.regions, (frames.shape[-2], frames.shape[-1]))
    with stop_at_interrupt() as stop, ExitStack() as files:
        registered = drive(register_steps(frames, stop=stop), draw_progress) if options.register else None
        frames = frames if registered is None else registered.frames
        baseline = _baseline(frames, settings, noise, options, stop)
        curves = CurveTaker(regions)
        into: list[MapTaker] = [files.enter_context(MapFile(path, which)) for which, path in outputs.items()]
        into += [curves] if regions else []
        into = into if registered is None else [ClearingTaker(registered, into)]
        steps = contrast_steps(
            frames, settings, noise=noise, baseline=baseline, device=options.device, into=into, stop=stop
        )
        maps = drive(steps, draw_progress)
    tell((*maps.notes, *(() if registered is None else registered.notes)))
    for path in outputs.values():
        wrote(path)
    if regions:
        for line in write_region_tables(options, tables, curves.curves):
            print(line)
    return 0 if maps.complete else STOPPED


def _outputs(options: argparse.Namespace, *, has_regions: bool) -> dict[str, Path]:
    """Return what is to be written where, and check before the run that it can be."""
    requested = {"contrast": options.contrast, "index": options.index_out, "mask": options.mask_out}
    outputs = {which: path for which, path in requested.items() if path is not None}
    if not outputs and not has_regions:
        raise InvalidInput("there is nothing to write; give --contrast, --index-out, --mask-out, or --regions")
    for path in outputs.values():
        if path.suffix.lower() not in TIFF_SUFFIXES:
            raise InvalidInput(f"{path.name} does not end in .tif; give it this ending")
    if "index" in outputs and options.index == "none":
        raise InvalidInput("--index-out needs an index, and --index is none; leave one of them out")
    if "mask" in outputs and not options.mask:
        raise InvalidInput("--mask-out needs the mask, and --no-mask leaves it out; give only one of them")
    return outputs


def _baseline(
    frames: Any, settings: ContrastSettings, noise: NoiseModel, options: argparse.Namespace, stop: threading.Event
) -> Array | None:
    """Return the mean of K² over the frames of the baseline, for the relative index."""
    if settings.index != "relative":
        if options.baseline is not None:
            raise InvalidInput("--baseline has no meaning without --index relative; leave it out")
        return None
    first, last = options.baseline or (0, len(frames) - 1)
    if frames.ndim != 3 or not 0 <= first <= last < len(frames):
        raise InvalidInput(f"--baseline is {first} {last}; the stack has shape {frames.shape}")
    part = part_of(frames, first, last + 1)
    return drive(baseline_k2_steps(part, settings, noise=noise, device=options.device, stop=stop), draw_progress)
