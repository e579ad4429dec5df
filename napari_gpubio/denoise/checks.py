"""Published and closed-form cases of the filter, speed cases, and calls that compile the CPU backend."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Check, Finding, Speed, WarmUp, difference_finding, error_finding, z_score_finding
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.denoise.fluence import denoise_fluence
from napari_gpubio.denoise.kernels.anlm.calibration import make_problem
from napari_gpubio.denoise.kernels.anlm.problem import NOTHING
from napari_gpubio.denoise.kernels.anlm.tally import Partial
from napari_gpubio.denoise.reference import denoise_directly, mix_directly
from napari_gpubio.denoise.run import denoise
from napari_gpubio.denoise.samples import fluence_pair, noisy_head
from napari_gpubio.denoise.settings import DenoiseSettings

Array = npt.NDArray[Any]

ROUNDING = 1e-5  # relative, of single precision
AT_A_THRESHOLD = 2e-3  # share of voxels that rounding may put on the other side of a pre-selection's threshold
SEARCH = 3
# Least mean squared difference of residual patches over the noise's variance, by patch radius; two digits were given.
NOISE_MEASURE, NOISE_MEASURE_ERROR = {1: 0.85, 2: 1.37}, 0.005
HEAD_TISSUE = 150.0  # truth of the sample head above which there is tissue with signal
DIPY_GAIN = 7.81  # dB, of DIPY 1.12.1 in the sample head's tissue
MIN_FLUENCE = 1e-5  # 1/mm^2; the raw signal / noise is about 0 dB there and 11 dB in the mean
YUAN_GAIN, YUAN_GAIN_SPREAD = 5.0, 1.0  # dB; 4.5 to 5.4 there, by domain and number of photons
RICIAN = DenoiseSettings(noise_model="rician")
RICIAN_AT_BEST = DenoiseSettings(noise_model="rician", cutoff=3.0, center="largest")


def _steps(shape: tuple[int, ...], seed: int) -> Array:
    """Two flat halves with a slow wave and white noise of sigma 4."""
    x, y, z = np.indices(shape)
    truth = np.where(x + y > sum(shape[:2]) / 2, 140.0, 100.0) + 5.0 * np.sin(0.7 * z)
    return np.asarray(truth + 4.0 * np.random.default_rng(seed).normal(size=shape))


# -- exact ------------------------------------------------------------------------------------------------------------


def _constant(device: Device) -> list[Finding]:
    """Fluence is small and MRI is large; neither may change where there is nothing to take off."""
    found = []
    for level in (3e-16, 1e4):
        volume = np.full((13, 11, 30), level, np.float32)
        change = np.abs(denoise(volume, device=device).image / volume - 1.0).max()
        found.append(error_finding(f"change of {level:g}", float(change), 0.0))
    return found


def _scale(device: Device) -> list[Finding]:
    """A volume times a power of two gives the same bits times it."""
    volume = _steps((16, 18, 20), 1).astype(np.float32)
    small = denoise(volume * np.float32(2.0**-60), device=device).image * np.float32(2.0**60)
    changed = np.count_nonzero(small != denoise(volume, device=device).image)
    return [error_finding("voxels that differ", float(changed), 0.0)]


def _direct(device: Device) -> list[Finding]:
    """Both backends against the equations."""
    volume = _steps((11, 9, 12), 2)
    found = []
    for rule in ("none", "seed"):
        expected = denoise_directly(volume, SEARCH, rule)
        image = denoise(volume, DenoiseSettings(search_radius=SEARCH, preselection=rule), device=device).image
        errors = np.abs(image / expected - 1.0)
        if rule == "none":
            found.append(error_finding("relative difference", float(errors.max()), ROUNDING))
        else:
            share = float((errors > ROUNDING).mean())
            found.append(error_finding("share beyond 1e-5", share, AT_A_THRESHOLD))
    return found


def _wavelet(device: Device) -> list[Finding]:
    """Estimates that are given, mixed on the device."""
    rng = np.random.default_rng(3)
    small, large = 10.0 + rng.normal(size=(2, 12, 9, 14)).astype(np.float32)
    mixed, same = _mixed(small, large, device), _mixed(small, small, device)
    error = np.abs(mixed - mix_directly(small, large)).max() / np.abs(large - small).max()
    return [
        error_finding("bands (relative)", float(error), ROUNDING),
        error_finding("reconstruction", float(np.abs(same - small).max()), 0.0),
    ]


def _mixed(small: Array, large: Array, device: Device) -> Array:
    problem = make_problem(small, DenoiseSettings(search_radius=1))
    estimates = np.stack([small, large])
    with Runs(problem, device.first) as runs:
        (run,) = runs.each
        run.merge(Partial(np.ones_like(estimates), estimates, [(0, problem.items)]))
        return np.asarray(run.finish().values)


def _backends(device: Device) -> list[Finding]:
    """The CPU's result, and the same result twice."""
    volume = _steps((30, 26, 58), 4)
    first, second = (denoise(volume, device=device).image for _ in range(2))
    share = float((np.abs(first / denoise(volume, device=CPU).image - 1.0) > ROUNDING).mean())
    return [
        error_finding("share beyond 1e-5", share, 1e-4),
        error_finding("voxels that change", float(np.count_nonzero(first != second)), 0.0),
    ]


# -- noise ------------------------------------------------------------------------------------------------------------


def _white_noise(device: Device) -> list[Finding]:
    """The filter's measure of noise in white noise, over its variance; standard errors from independent volumes."""
    margin, volumes = SEARCH + 2, 16
    white = [np.random.default_rng(seed).normal(100.0, size=(22 + 2 * margin,) * 3) for seed in range(volumes)]
    means = np.array([measured(volume, margin, device) for volume in white])
    errors = means.std(axis=0, ddof=1) / math.sqrt(volumes)
    return [
        z_score_finding(f"h²/σ², patch radius {radius}", reference, mean, error, NOISE_MEASURE_ERROR)
        for (radius, reference), mean, error in zip(NOISE_MEASURE.items(), means.mean(axis=0), errors, strict=True)
    ]


def measured(volume: Array, margin: int, device: Device) -> list[float]:
    """Means of h² away from the borders, for each patch."""
    problem = make_problem(volume, DenoiseSettings(search_radius=SEARCH))
    with Runs(problem, device.first) as runs:
        (run,) = runs.each
        run.advance(0, problem.items)
        sums = run.snapshot().sums[(slice(None), *(slice(margin, -margin),) * 3)].astype(np.float64)
    known = sums < NOTHING / 2
    return [float(s[k].mean()) / n for s, k, n in zip(sums, known, problem.windows.patch_sizes, strict=True)]


def _rician(device: Device) -> list[Finding]:
    """Flat phantoms: the mean of magnitudes lies above the signal, that of the filtered ones on it."""
    found, sigma = [], 4.0
    for ratio, tolerance in ((6.0, 0.005), (15.0, 0.002)):
        real, imaginary = sigma * np.random.default_rng(5).normal(size=(2, 32, 32, 32))
        result = denoise(np.hypot(ratio * sigma + real, imaginary), RICIAN, device=device)
        inner = (slice(6, -6),) * 3
        mean, noise = float(result.image[inner].mean()) / (ratio * sigma), float(np.median(result.noise[inner])) / sigma
        where = f"of signal {ratio:g} σ"
        found += [
            difference_finding(f"mean {where}", 1.0, mean, tolerance),
            difference_finding(f"noise {where}", 1.0, noise, 0.05),
        ]
    return found


# -- quality ----------------------------------------------------------------------------------------------------------


def _gain_db(noisy: Array, found: Array, truth: Array, weights: Array) -> float:
    """By how much a weighted squared error falls."""
    before, after = (float(np.mean(np.square((volume - truth) * weights))) for volume in (noisy, found))
    return 10.0 * math.log10(before / after)


def _head(device: Device) -> list[Finding]:
    """The sample head; a filter that is given the true noise is the mark to reach with the estimated one."""
    head = noisy_head()
    tissue = (head.truth > HEAD_TISSUE).astype(np.float64)
    gain = _gain_db(head.noisy, denoise(head.noisy, RICIAN_AT_BEST, device=device).image, head.truth, tissue)
    short = max(0.0, DIPY_GAIN - gain)
    return [Finding(quantity="PSNR gain (dB), at least", reference=DIPY_GAIN, result=gain, error=short, tolerance=0.0)]


def _fluence(device: Device) -> list[Finding]:
    """The sample fluence of 100 000 photons, relative errors where there is light enough to speak of."""
    pair = fluence_pair()
    raw, truth = (pair.half_a.astype(np.float64) + pair.half_b) / 2, pair.truth.astype(np.float64)
    weights = np.where(truth > MIN_FLUENCE, 1.0 / np.maximum(truth, MIN_FLUENCE), 0.0)
    gain = _gain_db(raw, denoise(raw, device=device).image, truth, weights)
    return [difference_finding("error gain (dB)", YUAN_GAIN, gain, YUAN_GAIN_SPREAD)]


CHECKS = (
    Check(name="constant in, constant out", source="closed form", run=_constant),
    Check(name="any scale", source="closed form", run=_scale),
    Check(name="direct form", source="equations of Yuan et al. 2018, voxel by voxel in float64", run=_direct),
    Check(name="wavelet bank", source="all eight bands of Abdelnour and Selesnick's bank in float64", run=_wavelet),
    Check(name="device and CPU", source="the CPU backend", run=_backends),
    Check(name="measure of white noise", source="an independent form of the filter, two digits", run=_white_noise),
    Check(name="Rician magnitudes", source="flat phantoms; Koay and Basser 2006", run=_rician),
    Check(
        name="head with Rician noise",
        source="DIPY 1.12.1 nlmeans, blockwise, search 3, patch 1, with the true noise map",
        run=_head,
    ),
    Check(name="fluence of few photons", source="median of Yuan et al. 2018: 4.5 to 5.4 dB", run=_fluence),
)


# -- speed ------------------------------------------------------------------------------------------------------------

_LARGE, _SLAB = 256, 32  # a CPU does a slab of the large volume, so that a bench takes seconds


def head_volume(*shape: int) -> npt.NDArray[np.float32]:
    """Make the noisy sample head as large as one likes: mirrored again and again beyond its borders."""
    head: Any = noisy_head().noisy
    missing = [max(0, n - size) for n, size in zip(shape, head.shape, strict=True)]
    padded = np.pad(head, [(0, n) for n in missing], mode="symmetric")
    return np.ascontiguousarray(padded[tuple(slice(n) for n in shape)], np.float32)


def speed(name: str, shape: tuple[int, int, int], on_cpu: tuple[int, int, int], **options: Any) -> Speed:
    """The speed of the filter on a piece of the head, of another shape on a CPU."""

    def prepare(device: Device) -> Callable[[], float]:
        volume, settings = head_volume(*(shape if device.is_gpu else on_cpu)), DenoiseSettings(**options)
        return lambda: float(denoise(volume, settings, device=device).image.size)

    return Speed(name=name, unit="voxels", prepare=prepare)


SPEEDS = (
    speed("anlm, 100^3", (100,) * 3, (100,) * 3),
    speed("anlm, 256^3 (on a CPU 256 x 256 x 32)", (_LARGE,) * 3, (_LARGE, _LARGE, _SLAB)),
    speed("anlm, Rician, 100^3", (100,) * 3, (100,) * 3, noise_model="rician", cutoff=3.0, center="largest"),
)


# -- warm-ups ---------------------------------------------------------------------------------------------------------


def _denoise_tiny(**options: Any) -> None:
    denoise(_steps((8, 8, 8), 0), DenoiseSettings(**options), device=CPU)


def _denoise_tiny_fluence() -> None:
    even, odd = np.random.default_rng(0).poisson(20.0, (2, 8, 8, 8))
    denoise_fluence(even, odd, device=CPU)


WARMUPS = (
    WarmUp(name="anlm", run=_denoise_tiny, functions=24),
    WarmUp(name="fluence", run=_denoise_tiny_fluence, functions=18),
    WarmUp(name="Rician noise", run=functools.partial(_denoise_tiny, noise_model="rician"), functions=1),
)
