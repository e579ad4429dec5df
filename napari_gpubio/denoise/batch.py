"""The command-line verb ``napari-gpubio denoise``: from a noisy image to a clean one, with its header."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.arguments import add_settings, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.core.terminal import STOPPED, draw_progress, stop_at_interrupt
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.denoise.io import NiftiImage, read_image, read_mask, read_on_grid, write_image
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.run import denoise_steps
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.denoise.values import from_log10, to_log10, without_gaps

Array = npt.NDArray[Any]
_EXAMPLES = """examples:
  napari-gpubio denoise t1.nii.gz --out t1_clean.nii.gz --noise-model rician
  napari-gpubio denoise fluence.nii.gz --out clean.nii.gz --noise-out sigma.nii.gz --residual residual.nii.gz

Ctrl-C ends a run early: what was done is written, the rest is as it was."""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "denoise",
        help="denoise fluence or MRI",
        description="Denoise a volume or a series of volumes by adaptive non-local means; the header is kept.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    verb.add_argument("input", type=Path, help="volume (x, y, z) or series (x, y, z, n), NIfTI")
    verb.add_argument("--out", "-o", type=Path, required=True, help="denoised image, NIfTI")
    verb.add_argument("--noise-out", type=Path, metavar="FILE", help="standard deviation of the noise, NIfTI")
    verb.add_argument("--residual", type=Path, metavar="FILE", help="input minus denoised image, NIfTI")
    verb.add_argument("--mask", type=Path, metavar="FILE", help="voxels to denoise: not 0; the others stay as they are")
    noise = verb.add_mutually_exclusive_group()
    noise.add_argument("--sigma", type=float, help="standard deviation of the noise, where it is known")
    noise.add_argument("--noise-map", type=Path, metavar="FILE", help="the same as a map on the image's grid")
    verb.add_argument(
        "--volumes", type=int, nargs=2, metavar=("FIRST", "LAST"), help="of a series, counted from 0 (default: all)"
    )
    verb.add_argument(
        "--log10", action="store_true", help="the values are decimal logarithms; what they mean is filtered"
    )
    verb.add_argument("--skip-gaps", action="store_true", help="leave out voxels that are NaN or infinite")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_settings(verb, DenoiseSettings(), "filter")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what the arguments say."""
    _check_outputs(options)
    image = read_image(options.input)
    result = _denoise(image, options)
    for note in result.notes:
        print(note, file=sys.stderr)
    _write(image, result, options)
    return 0 if result.complete else STOPPED


def _check_outputs(options: argparse.Namespace) -> None:
    """Find out before the run, not after it, that a result cannot be written."""
    for path in (options.out, options.noise_out, options.residual):
        if path is None:
            continue
        if not path.name.lower().endswith(NIFTI_SUFFIXES):
            raise InvalidInput(f"{path.name} does not end in .nii or .nii.gz; give it one of these endings")
        if not path.parent.is_dir():
            raise InvalidInput(f"the folder {path.parent} does not exist; create it or choose another place")


def _volumes(image: NiftiImage, options: argparse.Namespace) -> slice:
    """The volumes of a series that are to be denoised."""
    if options.volumes is None:
        return slice(None)
    if image.array.ndim != 4:
        raise InvalidInput(f"{image.path.name} has shape {image.array.shape} and is no series; leave --volumes out")
    (first, last), count = options.volumes, image.array.shape[3]
    if not 0 <= first <= last < count:
        raise InvalidInput(f"--volumes is {first} {last}; {image.path.name} has the volumes 0 to {count - 1}")
    return slice(first, last + 1)


def _denoise(image: NiftiImage, options: argparse.Namespace) -> DenoiseResult:
    """Denoise the chosen volumes; Ctrl-C ends it with what was done."""
    mask = None if options.mask is None else read_mask(options.mask, image)
    noise = options.sigma if options.noise_map is None else read_on_grid(options.noise_map, image)
    chosen = _volumes(image, options)
    if np.ndim(noise) == 4:
        noise = noise[..., chosen]
    values = image.array if image.array.ndim != 4 else image.array[..., chosen]
    if options.log10:
        values = from_log10(values)
    if options.skip_gaps:
        values, mask = without_gaps(values, mask)
    with stop_at_interrupt() as stop:
        steps = denoise_steps(
            values,
            read_settings(options, DenoiseSettings()),
            mask=mask,
            voxel_size_mm=image.voxel_size_mm,
            noise=noise,
            device=options.device,
            stop=stop,
        )
        return drive(steps, draw_progress)


def _write(image: NiftiImage, result: DenoiseResult, options: argparse.Namespace) -> None:
    """Write every file that was asked for."""
    after = to_log10 if options.log10 else np.asarray
    clean = _in_place(image, after(result.image), options)
    outputs = (
        (options.out, clean, "denoised"),
        (options.noise_out, after(result.noise), "standard deviation of the noise"),
        (options.residual, image.array - clean, "input - denoised"),
    )
    for path, array, what in outputs:
        if path is not None:
            write_image(path, array, image, f"{what}, {result.parameters['software']}")
            print(path)


def _in_place(image: NiftiImage, denoised: Array, options: argparse.Namespace) -> Array:
    """The whole image, with the denoised volumes in their place, and gaps as they were."""
    whole = image.array.astype(denoised.dtype)
    chosen = (..., _volumes(image, options)) if whole.ndim == 4 else ...
    keeps = options.skip_gaps and not options.log10
    whole[chosen] = np.where(np.isfinite(whole[chosen]), denoised, whole[chosen]) if keeps else denoised
    return whole
