"""The command-line verb ``napari-gpubio denoise``: from a noisy image to a clean one, with its header."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import one_volume
from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings, denoise_fluence_steps
from napari_gpubio.denoise.fluence.model import PROVABLE_TIMES
from napari_gpubio.denoise.io import (
    NiftiImage,
    check_output,
    from_log10,
    in_place,
    mean_of_halves,
    read_image,
    read_mask,
    read_on_grid,
    to_log10,
    without_gaps,
    write_image,
)
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.noise import FEWEST_VOLUMES, SeriesNoise, estimate, is_across_volumes
from napari_gpubio.denoise.run import denoise_steps
from napari_gpubio.denoise.settings import DenoiseSettings

Array = npt.NDArray[Any]
ANLM, FLUENCE = "anlm", "fluence"
_SETTINGS: dict[str, DenoiseSettings | FluenceSettings] = {ANLM: DenoiseSettings(), FLUENCE: FluenceSettings()}
_INPUTS = ("second", "guide", "labels", "mueff")  # of the mode fluence alone
_EXAMPLES = """examples:
  napari-gpubio denoise t1.nii.gz --out t1_clean.nii.gz --noise-model rician
  napari-gpubio denoise dwi.nii.gz --out dwi_clean.nii.gz --noise-model rician --mask brain.nii.gz
  napari-gpubio denoise even.nii.gz --second odd.nii.gz --labels labels.nii.gz --out clean.nii.gz
  napari-gpubio denoise light_half_1.nii.gz --second light_half_2.nii.gz --guide light_guide.nii.gz --out clean.nii.gz
  napari-gpubio denoise fluence.nii.gz --mode fluence --out clean.nii.gz --residual residual.nii.gz

Ctrl-C ends a run early: what was done is written. The rest is as it was (anlm), or less smooth (fluence)."""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "denoise",
        help="denoise fluence or MRI",
        description="Denoise a volume or a series of volumes, by adaptive non-local means (anlm) or as fluence of a "
        "Monte Carlo run, best from two halves of its photons (fluence); the header is kept.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLES,
    )
    verb.add_argument("input", type=Path, help="plane (x, y), volume (x, y, z) or series (x, y, z, n), NIfTI")
    verb.add_argument("--out", "-o", type=Path, required=True, help="denoised image, NIfTI")
    verb.add_argument(
        "--mode",
        choices=tuple(_SETTINGS),
        help="default: fluence with --second, --guide, --labels or --mueff, else anlm",
    )
    verb.add_argument(
        "--noise-out", type=Path, metavar="FILE", help="standard deviation of the noise (fluence: what is left), NIfTI"
    )
    verb.add_argument("--residual", type=Path, metavar="FILE", help="input minus denoised image, NIfTI")
    verb.add_argument("--mask", type=Path, metavar="FILE", help="voxels to denoise: not 0; the others stay as they are")
    noise = verb.add_mutually_exclusive_group()
    noise.add_argument(
        "--sigma",
        type=float,
        help="standard deviation of the noise, where it is known; default: estimated, Rician noise of a series of "
        f"{FEWEST_VOLUMES} or more volumes across all of them",
    )
    noise.add_argument("--noise-map", type=Path, metavar="FILE", help="the same as a map on the image's grid")
    verb.add_argument(
        "--volumes", type=int, nargs=2, metavar=("FIRST", "LAST"), help="of a series, counted from 0 (default: all)"
    )
    verb.add_argument(
        "--log10", action="store_true", help="the values are decimal logarithms; the linear values are filtered"
    )
    verb.add_argument("--skip-gaps", action="store_true", help="leave out voxels that are NaN or infinite")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_settings(verb, _SETTINGS[ANLM], "anlm")
    fluence = verb.add_argument_group("fluence, its inputs")
    fluence.add_argument("--second", type=Path, metavar="FILE", help="fluence of the other half of the photons, NIfTI")
    fluence.add_argument(
        "--guide", type=Path, metavar="FILE", help="what diffusion theory says of the same run (light --halves), NIfTI"
    )
    fluence.add_argument(
        "--labels", type=Path, metavar="FILE", help="refractive index or tissue: nothing is averaged across borders"
    )
    fluence.add_argument("--mueff", type=float, help="effective attenuation, which --cap is relative to [1/mm]")
    add_settings(verb, _SETTINGS[FLUENCE], "fluence")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    outputs = {"--out": options.out, "--noise-out": options.noise_out, "--residual": options.residual}
    for path in outputs.values():  # before the run, not after it
        if path is not None:
            check_output(path)
    read = {name: getattr(options, name) for name in ("input", "mask", "noise_map", "second", "guide", "labels")}
    check_outputs(outputs, read, force=options.force)
    options.mode = _mode(options)
    image = read_image(options.input)
    inputs = _read(image, options)
    result = _denoise(image, inputs, options)
    tell(result.notes)
    if isinstance(result, FluenceResult) and np.isfinite(result.snr_gain_db):
        # part of the error that is left stays hidden in one buffer, and a very small one in two
        most = "at most " if inputs.second is None or result.photon_multiplier > PROVABLE_TIMES else ""
        gain = f"{result.snr_gain_db:.1f} dB, as with {result.photon_multiplier:.2g} x the photons"
        tell([f"gain of signal / noise: {most}{gain}"])
        measured(snr_gain_db=result.snr_gain_db, photon_multiplier=result.photon_multiplier, is_upper_bound=bool(most))
    elif isinstance(result, DenoiseResult):
        measured(signal_to_noise_db=result.signal_to_noise_db)
    measured(noise_sd_median=np.nanmedian(result.noise), complete=result.complete)
    _write(image, inputs, result, options)
    return 0 if result.complete else STOPPED


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


def _mode(options: argparse.Namespace) -> str:
    """Choose the mode; InvalidInput if an option belongs only to the other one."""
    inputs = [name for name in _INPUTS if getattr(options, name) is not None]
    mode: str = options.mode or (FLUENCE if inputs else ANLM)
    strange = inputs if mode == ANLM else []
    for other, settings in _SETTINGS.items():
        if other != mode:
            strange += [
                field.name
                for field in dataclasses.fields(settings)
                if getattr(options, field.name) != getattr(settings, field.name)
            ]
    if strange:
        option = "--" + strange[0].replace("_", "-")
        raise InvalidInput(f"{option} has no meaning in the mode {mode}; leave it out, or choose another --mode")
    return mode


class _Inputs(NamedTuple):
    """Linear values to denoise; the last three in the mode fluence, where they were given."""

    values: Array
    mask: npt.NDArray[np.bool_] | None
    noise: Any
    second: Array | None
    labels: Array | None
    guide: Array | None

    @property
    def whole(self) -> Array:
        """Values that the result is compared with."""
        return self.values if self.second is None else mean_of_halves(self.values, self.second)


def _read(image: NiftiImage, options: argparse.Namespace) -> _Inputs:
    """Read all inputs, and bring them to what the engine takes."""
    mask = None if options.mask is None else read_mask(options.mask, image)
    noise = options.sigma if options.noise_map is None else read_on_grid(options.noise_map, image)
    chosen = _volumes(image, options)
    if np.ndim(noise) == 4:
        noise = noise[..., chosen]
    elif noise is None:
        noise = _noise_of_all(image, mask, options)
    labels, guide = (
        None if path is None else one_volume(read_on_grid(path, image), path.name)
        for path in (options.labels, options.guide)
    )
    values, mask = _linear(image.array, mask, options, chosen)
    second = None
    if options.second is not None:
        raw = read_on_grid(options.second, image)
        second, mask = _linear(raw, mask, options, chosen)
        if options.skip_gaps and raw.shape == image.array.shape:  # a voxel that only one half lacks is as in the other
            second = np.where(np.isfinite(_chosen(raw, chosen)) | options.log10, second, values)
    return _Inputs(values, mask, noise, second, labels, guide)


def _noise_of_all(
    image: NiftiImage, mask: npt.NDArray[np.bool_] | None, options: argparse.Namespace
) -> SeriesNoise | None:
    """The noise of a series, from all of its volumes, whichever are denoised; None where each is looked at alone."""
    settings = read_settings(options, _SETTINGS[options.mode])
    if not isinstance(settings, DenoiseSettings) or not is_across_volumes(settings, image.array.shape):
        return None
    series, inside = _linear(image.array, mask, options, slice(None))
    return estimate(series, mask=inside)


def _linear(
    array: Array, mask: npt.NDArray[np.bool_] | None, options: argparse.Namespace, chosen: slice
) -> tuple[Array, npt.NDArray[np.bool_] | None]:
    """The chosen volumes of an image as the engine takes them, and the mask without their gaps."""
    values = _chosen(array, chosen)
    if options.log10:
        values = from_log10(values)
    return without_gaps(values, mask) if options.skip_gaps else (values, mask)


def _chosen(array: Array, chosen: slice) -> Array:
    return array if array.ndim != 4 else array[..., chosen]


def _denoise(image: NiftiImage, inputs: _Inputs, options: argparse.Namespace) -> DenoiseResult | FluenceResult:
    """Denoise; Ctrl-C ends it with what was done."""
    with stop_at_interrupt() as stop:
        known: dict[str, Any] = {
            "mask": inputs.mask,
            "noise": inputs.noise,
            "voxel_size_mm": image.voxel_size_mm,
            "device": options.device,
            "stop": stop,
        }
        settings = read_settings(options, _SETTINGS[options.mode])
        if isinstance(settings, DenoiseSettings):
            return drive(denoise_steps(inputs.values, settings, **known), draw_progress)
        known |= {"labels": inputs.labels, "guide": inputs.guide, "mueff_per_mm": options.mueff}
        return drive(denoise_fluence_steps(inputs.values, inputs.second, settings, **known), draw_progress)


def _write(
    image: NiftiImage, inputs: _Inputs, result: DenoiseResult | FluenceResult, options: argparse.Namespace
) -> None:
    """Write every requested file."""
    after = to_log10 if options.log10 else np.asarray
    clean = _in_place(image, after(result.image), options)
    before = image.array if inputs.second is None else _in_place(image, after(inputs.whole), options)
    outputs = (
        (options.out, clean, "denoised"),
        (options.noise_out, after(result.noise), "standard deviation of the noise"),
        (options.residual, before - clean, "input - denoised"),
    )
    for path, array, what in outputs:
        if path is not None:
            write_image(path, array, image, f"{what}, {result.parameters['software']}")
            wrote(path)


def _in_place(image: NiftiImage, denoised: Array, options: argparse.Namespace) -> Array:
    """The whole image, with the denoised volumes in their place, and gaps as they were."""
    chosen = _volumes(image, options) if image.array.ndim == 4 else None
    return in_place(image.array, denoised, chosen, keeps_gaps=options.skip_gaps and not options.log10)
