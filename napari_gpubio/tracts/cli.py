"""The command-line verb ``napari-gpubio tracts``: from a diffusion scan or a tensor image to a tractogram."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import add_settings, draw_progress, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts.arguments import add_field, read_field
from napari_gpubio.tracts.bundles import cli as bundles
from napari_gpubio.tracts.connectome import cli as connectome
from napari_gpubio.tracts.dissection import cli as dissection
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.model import TensorField
from napari_gpubio.tracts.noise import cli as noise
from napari_gpubio.tracts.routes import cli as routes
from napari_gpubio.tracts.run import track, track_to_file
from napari_gpubio.tracts.seeds import WHITE_MATTER_FA, ball, label_points, white_matter_points
from napari_gpubio.tracts.settings import Directions, TrackSettings
from napari_gpubio.tracts.tensors.maps import scalar_map
from napari_gpubio.tracts.tensors.run import check_same_grid
from napari_gpubio.tracts.uncertainty import cli as uncertainty

STREAMED = (".trx", ".tck")


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "tracts",
        help="fit tensors and track fibers",
        description="Fit tensors to a diffusion scan (or read a tensor image) and track fibers from seeds.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  napari-gpubio tracts dwi.nii.gz --seed 0 -5 22 --radius-mm 3 --points 100 --out cc.trk\n"
        "  napari-gpubio tracts dwi.nii.gz --white-matter --per-voxel 4 --kind principal --out brain.trx",
    )
    add_field(verb)
    verb.add_argument("--seed", type=float, nargs=3, action="append", metavar=("X", "Y", "Z"), help="seed, world mm")
    verb.add_argument("--radius-mm", type=float, default=0.0, help="radius of the ball of seed points around each seed")
    verb.add_argument("--points", type=int, default=1, help="seed points in each ball")
    verb.add_argument("--labels", type=Path, help="label volume to seed from, with --label")
    verb.add_argument("--label", type=int, default=1, help="which label of --labels")
    verb.add_argument("--white-matter", action="store_true", help="seed from all voxels whose FA is not below --fa")
    verb.add_argument("--fa", type=float, default=WHITE_MATTER_FA, help="of --white-matter (default: %(default)s)")
    verb.add_argument("--per-voxel", type=int, default=1, help="seed points in each voxel of the label or white matter")
    verb.add_argument("--out", type=Path, help="tractogram: .trk, .tck, .trx or .vtk")
    verb.add_argument("--maps", type=Path, help="folder for FA.nii.gz, MD.nii.gz, DEC.nii.gz")
    add_settings(verb, Directions(), "directions")
    add_settings(verb, TrackSettings(), "tracking")
    verb.set_defaults(run=run)
    noise.add_verb(verbs)
    dissection.add_verb(verbs)
    uncertainty.add_verb(verbs)
    routes.add_verb(verbs)
    connectome.add_verbs(verbs)
    bundles.add_verb(verbs)


def run(options: argparse.Namespace) -> int:
    """Fit or read the tensors, and write the maps and fibers that the options name."""
    if options.out is None and options.maps is None:
        raise InvalidInput("there is nothing to write; give --out for fibers or --maps for scalar maps")
    field = read_field(options)
    if options.maps is not None:
        _write_maps(field, options.maps)
    if options.out is not None:
        _write_fibers(field, options)
    return 0


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
    if options.white_matter:
        return white_matter_points(field, per_voxel=options.per_voxel, least_fa=options.fa)
    if options.labels is not None:
        labels, affine = read_volume(options.labels)
        check_same_grid(field, labels.shape, affine, f"the label volume {options.labels.name}")
        return label_points(labels, affine, options.label, per_voxel=options.per_voxel)
    if not options.seed:
        raise InvalidInput("there are no seeds; give --seed X Y Z (mm), --labels FILE --label N, or --white-matter")
    if options.points == 1:
        return options.seed
    return np.concatenate([ball(s, options.radius_mm, options.points, seed=n) for n, s in enumerate(options.seed)])
