"""The command-line verb ``napari-gpubio tracts``: from a diffusion scan or a tensor image to a tractogram."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import add_settings, draw_progress, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts.dissection import cli as dissection
from napari_gpubio.tracts.io.dwi import find_gradient_files, read_dwi, read_mask, read_volume
from napari_gpubio.tracts.io.tensor_images import read_tensors
from napari_gpubio.tracts.model import TensorField
from napari_gpubio.tracts.run import track, track_to_file
from napari_gpubio.tracts.seeds import ball, label_points
from napari_gpubio.tracts.settings import Directions, TrackSettings
from napari_gpubio.tracts.tensors.gradient_check import check_gradients
from napari_gpubio.tracts.tensors.maps import scalar_map
from napari_gpubio.tracts.tensors.run import check_same_grid, fit_tensors
from napari_gpubio.tracts.tensors.settings import FitSettings
from napari_gpubio.tracts.uncertainty import cli as uncertainty

STREAMED = (".trx", ".tck")


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "tracts",
        help="fit tensors and track fibers",
        description="Fit tensors to a diffusion scan (or read a tensor image) and track fibers from seeds.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  napari-gpubio tracts dwi.nii.gz --seed 0 -5 22 --radius-mm 3 --points 100 --out cc.trk",
    )
    verb.add_argument(
        "input", type=Path, help="diffusion scan (NIfTI with bval and bvec beside it, .mif), or tensor image"
    )
    verb.add_argument("--tensor-order", default="auto", help="of a tensor image: auto, mrtrix, fsl, dipy, full")
    verb.add_argument("--mask", type=Path, help="brain mask on the same grid")
    verb.add_argument("--seed", type=float, nargs=3, action="append", metavar=("X", "Y", "Z"), help="seed, world mm")
    verb.add_argument("--radius-mm", type=float, default=0.0, help="radius of the ball of seed points around each seed")
    verb.add_argument("--points", type=int, default=1, help="seed points in each ball")
    verb.add_argument("--labels", type=Path, help="label volume to seed from, with --label")
    verb.add_argument("--label", type=int, default=1, help="which label of --labels")
    verb.add_argument("--per-voxel", type=int, default=1, help="seed points in each voxel of the label")
    verb.add_argument("--out", type=Path, help="tractogram: .trk, .tck, .trx or .vtk")
    verb.add_argument("--maps", type=Path, help="folder for FA.nii.gz, MD.nii.gz, DEC.nii.gz")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_settings(verb, FitSettings(), "tensor fit")
    add_settings(verb, Directions(), "directions")
    add_settings(verb, TrackSettings(), "tracking")
    verb.set_defaults(run=run)
    dissection.add_verb(verbs)
    uncertainty.add_verb(verbs)


def run(options: argparse.Namespace) -> int:
    """Fit or read the tensors, and write the maps and fibers that the options name."""
    if options.out is None and options.maps is None:
        raise InvalidInput("there is nothing to write; give --out for fibers or --maps for scalar maps")
    field = _field(options)
    for note in field.notes:
        print(note, file=sys.stderr)
    if options.maps is not None:
        _write_maps(field, options.maps)
    if options.out is not None:
        _write_fibers(field, options)
    return 0


def _field(options: argparse.Namespace) -> TensorField:
    is_mif = ".mif" in options.input.name
    if not is_mif and not all(find_gradient_files(options.input)):
        return read_tensors(options.input, order=options.tensor_order, mask=options.mask)
    scan = read_dwi(options.input)
    mask = None if options.mask is None else read_mask(options.mask, scan.shape, scan.affine)
    settings = read_settings(options, FitSettings())
    field = fit_tensors(scan, mask, settings, device=options.device, progress=draw_progress)
    check = check_gradients(field)
    if not check.ok:
        print(f"warning: {check.message}", file=sys.stderr)
    return field


def _write_maps(field: TensorField, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the folder {folder} for maps cannot be made: {error.strerror}; choose another") from error
    for name in ("FA", "MD", "DEC"):
        write_volume(folder / f"{name}.nii.gz", scalar_map(field, name), field.affine)
        print(folder / f"{name}.nii.gz")


def _write_fibers(field: TensorField, options: argparse.Namespace) -> None:
    seeds = _seeds(field, options)
    directions, settings = read_settings(options, Directions()), read_settings(options, TrackSettings())
    if options.out.suffix in STREAMED:
        written = track_to_file(
            str(options.out), field, seeds, directions, settings, device=options.device, progress=draw_progress
        )
    else:
        fibers = track(field, seeds, directions, settings, device=options.device, progress=draw_progress)
        fibers.save(options.out)
        written = len(fibers)
    print(f"{written} fibers in {options.out}")


def _seeds(field: TensorField, options: argparse.Namespace) -> Any:
    if options.labels is not None:
        labels, affine = read_volume(options.labels)
        check_same_grid(field, labels.shape, affine, f"the label volume {options.labels.name}")
        return label_points(labels, affine, options.label, per_voxel=options.per_voxel)
    if not options.seed:
        raise InvalidInput("there are no seeds; give --seed X Y Z (world mm), or --labels FILE --label N")
    if options.points == 1:
        return options.seed
    return np.concatenate([ball(s, options.radius_mm, options.points, seed=n) for n, s in enumerate(options.seed)])
