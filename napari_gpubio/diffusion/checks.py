"""Reference and speed cases and warm-ups of diffusion MRI, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Check, Finding, Speed, WarmUp
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.fods import FodField, HighestFa
from napari_gpubio.diffusion.fods.estimate import estimate_response
from napari_gpubio.diffusion.fods.run import deconvolve
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.noise import NoiseSettings
from napari_gpubio.diffusion.noise.run import denoise_scan
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.tensors.gradient_check import check_gradients
from napari_gpubio.diffusion.tensors.run import fit_tensors

Array = npt.NDArray[Any]


def _deconvolution_speed(device: Device) -> Callable[[], float]:
    scan = load_brain_phantom()
    field = fit_tensors(scan, device=device)
    response = estimate_response(scan, field.mask, field=field, device=device)
    return lambda: float(deconvolve(scan, response, field.mask, device=device).mask.sum())


def _fit_speed(device: Device) -> Callable[[], float]:
    scan = load_brain_phantom()
    return lambda: float(fit_tensors(scan, device=device).mask.sum())


def _shells(device: Device) -> list[Finding]:
    """Diffusivities from two shells without b = 0; and that b-values which only rounding tells apart are one."""
    along, across = 1.7e-3, 0.3e-3  # mm^2/s
    directions = np.random.default_rng(2).normal(size=(60, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)

    def fitted(bvals: Array) -> TensorField:
        decay = np.exp(-bvals * (across + (along - across) * directions[:, 0] ** 2))
        data = np.broadcast_to(1000 * decay, (3, 3, 3, 60)).astype(np.float32)
        scan = DiffusionScan(data=data, bvals=bvals, directions=directions, affine=np.eye(4))
        return fit_tensors(scan, np.ones((3, 3, 3), bool), device=device)

    largest = float(fitted(np.repeat([700.0, 1400.0], 30)).tensors[1, 1, 1, 0])
    try:
        fitted(np.tile([995.0, 1000.0, 1005.0], 20))
        refused = 0.0
    except InvalidInput:
        refused = 1.0
    return [
        Finding(
            quantity="largest diffusivity (mm²/s)",
            reference=along,
            result=largest,
            error=largest - along,
            tolerance=1e-7,
        ),
        Finding(quantity="one shell refused", reference=1.0, result=refused, error=refused - 1.0, tolerance=0.0),
    ]


def _magnitudes(device: Device) -> list[Finding]:
    """Bias that is left in denoised and corrected magnitudes of one signal, and the noise that was found."""
    snr, shape = 1.0, (10, 10, 10, 90)
    x, y = np.random.default_rng(5).normal(size=(2, *shape))
    bvals = np.r_[0.0, np.full(shape[3] - 1, 1000.0)]
    directions = np.repeat([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [1, shape[3] - 1], axis=0)
    data = np.hypot(snr + x, y).astype(np.float32)
    scan = DiffusionScan(data=data, bvals=bvals, directions=directions, affine=np.eye(4))
    found = denoise_scan(scan, settings=NoiseSettings(rician=True), device=device)
    mean, noise = float(found.scan.data.mean()), float(np.median(found.noise))
    return [
        Finding(quantity="signal / noise", reference=snr, result=mean, error=mean - snr, tolerance=0.05),
        Finding(quantity="noise", reference=1.0, result=noise, error=noise - 1.0, tolerance=0.03),
    ]


def _small_scan() -> DiffusionScan:
    """8 x 8 x 8 voxels in the middle of the sample brain."""
    scan = load_brain_phantom()
    box = tuple(slice(n // 2 - 4, n // 2 + 4) for n in scan.shape)
    return dataclasses.replace(scan, data=scan.data[box])


def small_field() -> TensorField:
    """Return the tensors of some voxels of the sample brain."""
    small = _small_scan()
    return fit_tensors(small, np.ones(small.shape, bool), device="cpu")


def small_fods() -> FodField:
    """Return FODs of some voxels of the sample brain."""
    scan, field = _small_scan(), small_field()
    response = estimate_response(scan, field.mask, HighestFa(voxels=10), field=field, device="cpu")
    return deconvolve(scan, response, field.mask, device="cpu")


CHECKS = (
    Check(name="tensors without b = 0", source="definition", run=_shells),
    Check(name="magnitudes at SNR 1", source="moments of Rice 1944", run=_magnitudes),
)
SPEEDS = (
    Speed(name="weighted tensor fit of the phantom, mask included", unit="voxels", prepare=_fit_speed),
    Speed(name="spherical deconvolution of the phantom, lmax 8", unit="voxels", prepare=_deconvolution_speed),
)
WARMUPS = (
    WarmUp(name="tensor fit", run=small_field, functions=2),
    WarmUp(name="check of the gradient table", run=lambda: check_gradients(small_field()), functions=5),
    WarmUp(name="spherical deconvolution", run=small_fods, functions=21),
    WarmUp(name="denoising", run=lambda: denoise_scan(_small_scan(), device="cpu"), functions=20),
)
