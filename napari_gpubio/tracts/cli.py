"""The command-line verb ``napari-gpubio tracts``: from a diffusion scan or a tensor image to a tractogram."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import (
    STOPPED,
    check_outputs,
    draw_progress,
    stop_at_interrupt,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import measured, tell, warn, wrote
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import lies_on_grid, write_volume
from napari_gpubio.tracts.arguments import (
    InFixelsByDefault,
    InFodsByDefault,
    Tracking,
    add_field,
    add_tracking,
    read_field,
    read_fod_field,
    read_tracking,
    tell_check,
)
from napari_gpubio.tracts.fods.axis_check import check_axes, check_fods
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.io.fixels import read_fixels
from napari_gpubio.tracts.io.tractograms import STREAMED_SUFFIXES, tractogram_suffix, tractogram_target
from napari_gpubio.tracts.model import TensorField
from napari_gpubio.tracts.run import track_steps, track_to_file_steps
from napari_gpubio.tracts.seeds import WHITE_MATTER_FA, Field, ball, label_points, white_matter_points
from napari_gpubio.tracts.tensors.maps import scalar_map
from napari_gpubio.tracts.tensors.run import check_same_grid

_MAPS = ("FA", "MD", "DEC")
_TRACKING = Tracking()


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "tracts",
        help="fit tensors and track fibers",
        description="Fit tensors to a diffusion scan (or read a tensor image) and track fibers from seeds; or track in "
        "fiber orientation distributions (--fods), where step and lengths that are not given are "
        "those of MRtrix for the size of the voxels; or track geodesics in fixels (--fixels).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  napari-gpubio tracts dwi.nii.gz --seed 0 -5 22 --radius-mm 3 --points 100 --out cc.trk\n"
        "  napari-gpubio tracts dwi.nii.gz --white-matter --per-voxel 4 --directions principal --out brain.trx\n"
        "  napari-gpubio tracts --fods fod.nii.gz --seed 0 -5 22 --radius-mm 3 --points 20 --out cc.tck\n"
        "  napari-gpubio tracts --fixels fixels --seed 0 -5 22 --out cc.tck",
    )
    add_field(verb, or_fods=True)
    verb.add_argument("--fixels", type=Path, help="folder of fixels, or image of peaks, to track geodesics in")
    verb.add_argument("--seed", type=float, nargs=3, action="append", metavar=("X", "Y", "Z"), help="seed, world mm")
    verb.add_argument("--radius-mm", type=float, default=0.0, help="radius of the ball of seed points around each seed")
    verb.add_argument("--points", type=int, default=1, help="seed points in each ball")
    verb.add_argument("--labels", type=Path, help="label volume to seed from, with --label")
    verb.add_argument("--label", type=int, default=1, help="which label of --labels")
    verb.add_argument("--white-matter", action="store_true", help="seed from all voxels of the white matter")
    verb.add_argument(
        "--fa", type=float, default=WHITE_MATTER_FA, help="of --white-matter in tensors (default: %(default)s)"
    )
    verb.add_argument("--per-voxel", type=int, default=1, help="seed points in each voxel of the label or white matter")
    verb.add_argument("--out", type=Path, help="tractogram: .trk, .tck, .trx or .vtk")
    verb.add_argument("--maps", type=Path, help="folder for FA.nii.gz, MD.nii.gz, DEC.nii.gz")
    add_tracking(verb, _TRACKING, fods=InFodsByDefault(), fixels=InFixelsByDefault())
    verb.set_defaults(run=run, error=verb.error)


def run(options: argparse.Namespace) -> int:
    """Fit or read the tensors, and write the maps and fibers that the options name."""
    if options.fods is None and options.fixels is None and options.input is None:
        options.error("there is nothing to track in; name a diffusion scan or tensor image, or give --fods or --fixels")
    if options.fods is not None and options.fixels is not None:
        options.error("fibers are tracked in --fods or in --fixels; give one of them")
    if options.out is not None:
        tractogram_target(options.out)
    if options.fixels is not None and options.mask is not None and options.input is None:
        options.error("--mask is of a scan or of FODs; fixels have a mask of their own")
    if options.out is None and options.maps is None:
        raise InvalidInput("there is nothing to write; give --out for fibers or --maps for scalar maps")
    if options.maps is not None and options.input is None:
        raise InvalidInput("--maps are of tensors; name the diffusion scan, too")
    inputs = {name: getattr(options, name) for name in ("input", "fods", "fixels", "mask", "labels")}
    maps = options.maps, [f"{name}.nii.gz" for name in _MAPS]
    check_outputs({"--out": options.out}, inputs, force=options.force, folders={"--maps": maps})
    tensors = None if options.input is None else read_field(options)
    if options.maps is not None and tensors is not None:
        _write_maps(tensors, options.maps)
    if options.out is not None:
        return _write_fibers(_field(options, tensors), options)
    return 0


def _field(options: argparse.Namespace, tensors: TensorField | None) -> Field:
    """FODs, fixels or tensors to track in; the first two are checked where there are tensors."""
    if options.fods is not None:
        fods = read_fod_field(options, options.fods)
        if tensors is not None:
            tell_check(check_fods(fods, tensors))
        return fods
    if options.fixels is not None:
        fixels = read_fixels(options.fixels, frame=options.frame, tensors=tensors)
        tell(fixels.notes)
        if tensors is not None:
            tell_check(check_axes(fixels, tensors))
        return fixels
    assert tensors is not None, "the verb needs one of the three"
    return tensors


def _write_maps(field: TensorField, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the folder {folder} for maps cannot be made: {error.strerror}; choose another") from error
    for name in _MAPS:
        write_volume(folder / f"{name}.nii.gz", scalar_map(field, name), field.affine)
        wrote(folder / f"{name}.nii.gz")


def _write_fibers(field: Field, options: argparse.Namespace) -> int:
    """Track, and write the fibers; of a run that is interrupted those that there are."""
    seeds = _seeds(field, options)
    tracking = read_tracking(options)
    method = tracking.method
    with stop_at_interrupt() as stop:
        how: dict[str, Any] = {"device": options.device, "stop": stop}
        if tractogram_suffix(options.out) in STREAMED_SUFFIXES:
            steps = track_to_file_steps(str(options.out), field, seeds, tracking.directions, method, **how)
            written = drive(steps, draw_progress)
        else:
            fibers = drive(track_steps(field, seeds, tracking.directions, method, **how), draw_progress)
            fibers.save(options.out)
            written = len(fibers)
    measured(fibers=written)
    wrote(options.out, f"{written} {'fiber' if written == 1 else 'fibers'} in {options.out}")
    if not written and not stop.is_set():
        shortest = method.lengths(voxel_sizes_mm(field.affine)).min_length_mm
        warn(
            f"no fiber is as long as {shortest:g} mm; move the seeds, or lower --min-length-mm, --fod-stop or --fa-stop"
        )
    return STOPPED if stop.is_set() else 0


def _seeds(field: Field, options: argparse.Namespace) -> Any:
    if options.white_matter:
        return white_matter_points(field, per_voxel=options.per_voxel, least_fa=options.fa)
    if options.labels is not None:
        labels, affine = read_volume(options.labels)
        if lies_on_grid(options.labels, labels.shape, affine, field.shape, field.affine):
            affine = field.affine
        check_same_grid(field, labels.shape, affine, f"the label volume {options.labels.name}")
        return label_points(labels, affine, options.label, per_voxel=options.per_voxel)
    if not options.seed:
        raise InvalidInput("there are no seeds; give --seed X Y Z (mm), --labels FILE --label N, or --white-matter")
    if options.points == 1:
        return options.seed
    return np.concatenate([ball(s, options.radius_mm, options.points, seed=n) for n, s in enumerate(options.seed)])
