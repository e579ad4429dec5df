"""The command-line verb ``napari-gpubio mppca``: the noise of a diffusion scan taken out before anything else."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.command_line import (
    STOPPED,
    add_settings,
    check_endings,
    check_outputs,
    draw_progress,
    read_settings,
    stop_at_interrupt,
)
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, write_volume
from napari_gpubio.tracts.arguments import add_scan_options, read_scan
from napari_gpubio.tracts.io.dwi import find_gradient_files, read_mask
from napari_gpubio.tracts.io.gradients import write_fsl_gradients
from napari_gpubio.tracts.model import DiffusionScan
from napari_gpubio.tracts.noise.model import DenoisedScan
from napari_gpubio.tracts.noise.run import denoise_steps
from napari_gpubio.tracts.noise.settings import NoiseSettings

_DESCRIPTION = """Take the noise out of a diffusion scan by Marchenko-Pastur PCA (Veraart 2016), before motion
correction and any resampling. The gradient table is written beside the result. MPPCA may be covered by patents
(US 10,698,065); check before commercial use."""
_EXAMPLE = """example:
  napari-gpubio mppca dwi.nii.gz --out denoised.nii.gz --noise noise.nii.gz --residual residual.nii.gz
"""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "mppca",
        help="take the noise out of a diffusion scan",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLE,
    )
    verb.add_argument("input", type=Path, help="diffusion scan (NIfTI with bval and bvec beside it, .mif)")
    add_scan_options(verb)
    verb.add_argument("--mask", type=Path, help="which voxels are denoised; by default all that have a signal")
    verb.add_argument("--out", type=Path, required=True, help="denoised scan, NIfTI; its bval and bvec go beside it")
    verb.add_argument("--noise", type=Path, help="NIfTI of the standard deviation of the noise")
    verb.add_argument("--residual", type=Path, help="NIfTI of what was taken away; it must not show anatomy")
    verb.add_argument("--rank", type=Path, help="NIfTI of the number of signal components")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_settings(verb, NoiseSettings(), "denoising")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Denoise the scan, write what the options name, and tell how much noise there was."""
    bval, bvec = _check_files(options)
    settings, scan = read_settings(options, NoiseSettings()), read_scan(options)
    mask = None if options.mask is None else read_mask(options.mask, scan.shape, scan.affine)
    with stop_at_interrupt() as stop:
        result = drive(denoise_steps(scan, mask, settings, device=options.device, stop=stop), draw_progress)
    if not result.complete:
        tell(["nothing was written, since a scan that is denoised in part only fits no model"])
        return STOPPED
    tell(result.denoised.notes)
    write_volume(options.out, result.scan.data, scan.affine, "denoised by napari-gpubio mppca")
    write_fsl_gradients(bval, bvec, scan.bvals, scan.directions, scan.affine)
    _write_maps(options, result, scan)
    _show(result, scan)
    for path in (options.out, bval, bvec, options.noise, options.residual, options.rank):
        if path is not None:
            wrote(path)
    return 0


def _check_files(options: argparse.Namespace) -> tuple[Path, Path]:
    """Check the names of all files before the run; return those of the gradient table."""
    outputs = {"--out": options.out, "--noise": options.noise, "--residual": options.residual, "--rank": options.rank}
    check_endings(outputs, NIFTI_SUFFIXES)
    stem = next(options.out.name[: -len(end)] for end in NIFTI_SUFFIXES if options.out.name.lower().endswith(end))
    bval, bvec = (options.out.with_name(f"{stem}.{kind}") for kind in ("bval", "bvec"))
    tables = {"the bval file of --out": bval, "the bvec file of --out": bvec}
    own_bval, own_bvec = find_gradient_files(options.input)
    inputs = {"the scan": options.input, "its bval file": own_bval, "its bvec file": own_bvec, "--mask": options.mask}
    check_outputs(outputs | tables, inputs, force=options.force)
    return bval, bvec


def _write_maps(options: argparse.Namespace, result: DenoisedScan, scan: DiffusionScan) -> None:
    if options.noise is not None:
        write_volume(options.noise, result.noise, scan.affine, "standard deviation of the noise")
    if options.residual is not None:
        write_volume(options.residual, result.residual(scan), scan.affine, "scan - denoised scan")
    if options.rank is not None:
        write_volume(options.rank, result.rank, scan.affine, "number of signal components")


def _show(result: DenoisedScan, scan: DiffusionScan) -> None:
    """Tell the numbers of the denoising, a line each."""
    noise, rank = (float(np.median(values[result.mask])) for values in (result.noise, result.rank))
    ratio = result.residual_ratio_histogram(scan).standard_deviation
    voxels, window = int(result.mask.sum()), result.parameters["window"]
    print(f"{voxels:,} voxels, window {' x '.join(map(str, window))}")
    print(f"noise: standard deviation {noise:.5g} (median)")
    print(f"signal components: {rank:g} (median)")
    print(f"residual / noise: standard deviation {ratio:.3f}")
    measured(
        voxels=voxels, window_voxels=window, noise_sd_median=noise, signal_components_median=rank,
        residual_over_noise_sd=ratio,
    )  # fmt: skip
