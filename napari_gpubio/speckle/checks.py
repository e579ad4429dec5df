"""Reference cases and speed cases: closed forms, an independent computation, and phantoms of known contrast."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import uniform_filter

from napari_gpubio.core.checks import Check, Finding, Speed, WarmUp, difference_finding, error_finding, z_score_finding
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.settings import kind_of
from napari_gpubio.speckle.indices import expected_k2, inverse_correlation_time, visibility
from napari_gpubio.speckle.live.checks import SHAPE as LIVE_SHAPE
from napari_gpubio.speckle.live.checks import live_checks
from napari_gpubio.speckle.mesi import GivenBeta, MesiSettings, fit_mesi, squared_contrast
from napari_gpubio.speckle.mesi.model import MODELS
from napari_gpubio.speckle.regions import region_curves
from napari_gpubio.speckle.run import ContrastStream, contrast
from napari_gpubio.speckle.samples import (
    TUBES,
    Camera,
    SpeckleField,
    flow_frames,
    noise_model,
    steps_for,
    tube_phantom,
    window_share,
)
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    FlowIndex,
    InverseCorrelationTime,
    NoIndex,
    NoiseModel,
    NoMask,
    Spatial,
    SpatioTemporal,
    Squared,
    Temporal,
)

Array = npt.NDArray[Any]
_HARD_SHAPE = (260, 348)
CONTRAST_ERROR, INDEX_ERROR = 2.5e-7, 5e-7  # relative, of single precision
MAX_ULPS = 2.0
FLOW_ERROR = 0.03
LOW_LIGHT_ERROR = 0.03
EXPOSURES_MS = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0])
_WINDOW, _CUTOFF, _SIZE, _LEVEL = 7, 0.35, 160, 4000.0
_T = 10.0  # ms
LOW_LIGHT = ((15.0, 6.0, 5), (5.0, 2.0, 7), (2.5, 1.5, 7))  # electrons and read noise of a pixel, window
_EXPOSURES_OF_SAME_LIGHT = 16
_MESI_BETA = 0.25
FRAME_SHAPE = (1040, 1392)
STACK = 24
_SPEED_SETTINGS = ContrastSettings(mode=Spatial(window=5), mask=NoMask())


def contrast_directly(frames: Array, window: int, depth: int = 1, step: int = 1) -> Array:
    """Return K of all whole windows, shape (maps, Y - window + 1, X - window + 1)."""
    stack = np.asarray(frames, np.float64)
    stack = stack[None] if stack.ndim == 2 else stack
    windows = sliding_window_view(stack, (depth, window, window))[::step]
    found = np.empty(windows.shape[:3])
    for n, y in np.ndindex(windows.shape[:2]):  # row by row, to save memory
        samples = windows[n, y].reshape(windows.shape[2], -1)
        with np.errstate(invalid="ignore"):
            found[n, y] = samples.std(axis=1, ddof=1) / samples.mean(axis=1)
    return found


def _random(bits: int, rows: int = _HARD_SHAPE[0]) -> Array:
    return np.random.default_rng(1).integers(0, 2**bits, (rows, _HARD_SHAPE[1]), np.uint16)


def _speckle(mean: float) -> Array:
    return np.minimum(np.random.default_rng(2).exponential(mean, _HARD_SHAPE), 4095).astype(np.uint16)


def _low_contrast(mean: float, contrast: float, top: int = 4095) -> Array:
    noise = np.random.default_rng(3).standard_normal(_HARD_SHAPE)
    return np.clip(np.rint(mean * (1.0 + contrast * noise)), 0, top).astype(np.uint16)


# Name, window and generator of a frame: contrast from high to low, 12 to 16 bits.
HARD_CASES: tuple[tuple[str, int, Callable[[], Array]], ...] = (
    ("12-bit noise, 5 x 5", 5, lambda: _random(12)),
    ("12-bit noise, 7 x 7", 7, lambda: _random(12)),
    ("speckle of mean 800, 7 x 7", 7, lambda: _speckle(800.0)),
    ("K = 0.05 at 3000, 5 x 5", 5, lambda: _low_contrast(3000.0, 0.05)),
    ("K = 0.01 at 3500, 5 x 5", 5, lambda: _low_contrast(3500.0, 0.01)),
    ("K = 0.002 at 3500, 5 x 5", 5, lambda: _low_contrast(3500.0, 0.002)),
    ("16-bit, K = 0.2 at 30000, 5 x 5", 5, lambda: _low_contrast(30000.0, 0.2, 65535)),
    ("16-bit noise, 7 x 7", 7, lambda: _random(16)),
    ("16-bit noise, 31 x 31", 31, lambda: _random(16, 60)),
)


# -- exact ------------------------------------------------------------------------------------------------------------


def _hard(device: Device) -> list[Finding]:
    """Compare K and SFI with their definition."""
    found = []
    for name, window, make in HARD_CASES:
        frame, inner = make(), (slice(window // 2, -(window // 2)),) * 2
        maps = contrast(
            frame,
            ContrastSettings(mode=Spatial(window=window), index=FlowIndex(exposure_ms=_T), mask=NoMask()),
            device=device,
        )
        expected = contrast_directly(frame, window)[0]
        assert maps.index is not None
        k, sfi = maps.contrast[inner] / expected - 1.0, maps.index[inner] * (2e-3 * _T * expected**2) - 1.0
        found.append(error_finding(f"K, {name}", float(np.abs(k).max()), CONTRAST_ERROR))
        found.append(error_finding(f"SFI, {name}", float(np.abs(sfi).max()), INDEX_ERROR))
    return found


def _closed(device: Device) -> list[Finding]:
    """Compare a constant, a bright pixel and a ramp with closed forms."""
    flat, hot = np.full((40, 44), 3001, np.uint16), np.zeros((40, 44), np.uint16)
    hot[20, 20] = 60000
    ramp = np.broadcast_to(1000 + 13 * np.arange(44), (40, 44)).astype(np.uint16)
    found = []
    for window in (5, 7):
        settings, radius, n = ContrastSettings(mode=Spatial(window=window)), window // 2, window**2
        inner = (slice(radius, -radius),) * 2
        k = contrast(flat, settings, device=device).contrast[inner]
        found.append(error_finding(f"K of a constant, {window}", float(np.abs(k).max()), 0.0))
        bright = contrast(hot, settings, device=device).contrast[20 - radius : 21 + radius, 20 - radius : 21 + radius]
        found.append(error_finding(f"√N of a bright pixel, {window}", float(np.abs(bright / window - 1).max()), 2.5e-7))
        slope = 13.0 * math.sqrt(radius * (radius + 1) / 3.0 * n / (n - 1)) / ramp[inner]
        error = float(np.abs(contrast(ramp, settings, device=device).contrast[inner] / slope - 1).max())
        found.append(error_finding(f"ramp, {window}", error, CONTRAST_ERROR))
    return found


def _backends(device: Device) -> list[Finding]:
    """Compare maps (in units in the last place) and masks with those of the CPU."""
    rng = np.random.default_rng(4)
    frames = rng.integers(0, 65536, (9, 90, 132), np.uint16)
    frames[:, 10:30, 10:30], frames[:, 40:60, 40:60] = 500, 0
    found = []
    for mode in (Spatial(), Temporal(frames=4), SpatioTemporal(frames=4)):
        settings, kind = ContrastSettings(mode=mode), kind_of(mode)
        ours, theirs = (contrast(frames, settings, device=d) for d in (device, CPU))
        assert ours.index is not None
        assert theirs.index is not None
        found.append(error_finding(f"K, {kind} (ulp)", _ulps(ours.contrast, theirs.contrast), MAX_ULPS))
        found.append(error_finding(f"SFI, {kind} (ulp)", _ulps(ours.index, theirs.index), MAX_ULPS))
        changed = float(np.count_nonzero(ours.mask != theirs.mask))
        found.append(error_finding(f"mask, {kind} (pixels)", changed, 0.0))
    return found


def _ulps(one: Array, other: Array) -> float:
    """Return the largest difference of two maps; infinite if only one of them is finite somewhere."""
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return math.inf
    known = np.isfinite(one)
    return float(np.max(np.abs(one[known].astype(np.float64) - other[known]) / np.spacing(other[known]), initial=0.0))


def _model(device: Device) -> list[Finding]:
    """Invert A(x), in double precision and as the index of a map."""
    x = np.geomspace(0.01, 1000.0, 200)
    there = inverse_correlation_time(visibility(x), _T) * (1e-3 * _T)
    frame = np.random.default_rng(5).integers(100, 4096, (64, 64), np.uint16)
    maps = contrast(frame, ContrastSettings(index=InverseCorrelationTime(exposure_ms=_T)), device=device)
    assert maps.index is not None
    expected = inverse_correlation_time(maps.contrast.astype(np.float64) ** 2, _T)
    error = np.nanmax(np.abs(maps.index / expected - 1.0))
    return [
        error_finding("x (relative)", float(np.abs(there / x - 1.0).max()), 1e-8),
        error_finding("1/τ in single precision (relative)", float(error), 2e-6),
    ]


# -- phantoms ---------------------------------------------------------------------------------------------------------


def _window_k2(frames: Array, device: Device) -> tuple[float, float]:
    """Return K² from the variance of windows, corrected for their size, and its standard error."""
    settings = ContrastSettings(mode=Spatial(window=_WINDOW), index=NoIndex(), mask=NoMask())
    k = contrast(frames, settings, device=device).contrast.astype(np.float64)
    radius = _WINDOW // 2
    inner = (slice(None), slice(radius, -radius), slice(radius, -radius))
    means = uniform_filter(frames.astype(np.float64), (0, _WINDOW, _WINDOW))[inner]
    each = (k[inner] * means) ** 2
    values = each.mean(axis=(1, 2)) / frames.mean(axis=(1, 2)) ** 2 / window_share(_WINDOW, _CUTOFF)
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def _patterns(device: Device) -> list[Finding]:
    """Compare the sum of M independent patterns with K = 1/√M."""
    field, found = SpeckleField((_SIZE, _SIZE), _CUTOFF, np.random.default_rng(6)), []
    for patterns in (1, 2, 4, 9, 16):
        light = [sum(np.abs(field.draw()) ** 2 for _ in range(patterns)) / patterns for _ in range(8)]
        mean, error = _window_k2(np.rint(_LEVEL * np.stack(light)).astype(np.uint16), device)
        found.append(z_score_finding(f"K² of {patterns} patterns", 1.0 / patterns, mean, error))
    return found


def _flow(device: Device) -> list[Finding]:
    """Compare autoregressive flow, with and without static light, with its closed form."""
    found = []
    for x, rho in ((0.5, 1.0), (2.0, 1.0), (10.0, 1.0), (50.0, 1.0), (10.0, 0.5)):
        light = flow_frames(np.full((96, 96), x), frames=8, cutoff=_CUTOFF, rho=rho, seed=7)
        if rho < 1:  # frames that share static light are not independent
            light = np.stack([flow_frames(np.full((96, 96), x), cutoff=_CUTOFF, rho=rho, seed=n)[0] for n in range(8)])
        mean, error = _window_k2(np.rint(_LEVEL * light).astype(np.uint16), device)
        expected = float(expected_k2(x, steps_for(x), rho))
        found.append(z_score_finding(f"K² at T/τ = {x:g}, ρ = {rho:g}", expected, mean, error))
    return found


def _tubes(device: Device) -> list[Finding]:
    """Compare ratios of flow in the sample phantom, with the camera's noise subtracted."""
    made = tube_phantom()
    settings = ContrastSettings(mode=Spatial(window=_WINDOW), index=Squared())
    maps = contrast(made.frames, settings, noise=noise_model(), device=device)
    height = made.x.shape[0] // (2 * len(TUBES) + 1)
    regions = {}
    for n, x in enumerate(TUBES):
        regions[f"{x:g}"] = np.zeros(made.x.shape, bool)
        regions[f"{x:g}"][(2 * n + 1) * height + _WINDOW // 2 : (2 * n + 2) * height - _WINDOW // 2] = True
    k2 = {float(curve.name): float(curve.k2.mean()) for curve in region_curves(maps, regions)}
    exact = {x: float(made.k2[made.x == x][0]) for x in TUBES}
    return [
        difference_finding(
            f"flow at {fast:g} over {slow:g} (relative)", exact[slow] / exact[fast], k2[slow] / k2[fast], FLOW_ERROR,
            relative=True,
        )
        for slow, fast in itertools.combinations(TUBES, 2)
    ]  # fmt: skip


def _low_light(device: Device) -> list[Finding]:
    """Compare K² of a region with that of its light; the camera's noise exceeds the variance of many windows."""
    light = flow_frames(np.full((128, 128), 4.0), frames=8, cutoff=_CUTOFF, seed=9)
    rng, found = np.random.default_rng(9), []
    for electrons, read, window in LOW_LIGHT:
        camera = Camera(mean_adu=electrons, electrons_per_adu=1.0, read_noise_electrons=read)
        frames = np.concatenate([camera.expose(light, rng) for _ in range(_EXPOSURES_OF_SAME_LIGHT)])
        noise = NoiseModel(dark_adu=camera.dark_adu, gain=1.0, read_noise_adu=read, quantization=True)
        settings = ContrastSettings(mode=Spatial(window=window), index=FlowIndex(exposure_ms=_T))
        exact, measured = (
            region_curves(contrast(some, settings, noise=model, device=device), {"all": np.ones((128, 128))})[0]
            for some, model in ((light, None), (frames, noise))
        )
        name = f"K² at {electrons:g} electrons, {window} x {window} (relative)"
        found.append(difference_finding(name, exact.k2.mean(), measured.k2.mean(), LOW_LIGHT_ERROR, relative=True))
    return found


def _mesi(device: Device) -> list[Finding]:  # noqa: ARG001 - fits are made on the CPU
    """Recover τ and ρ, without noise and with 2 % of noise in K²."""
    truth = [(rho, tau) for rho in (1.0, 0.9, 0.6) for tau in (0.1, 0.5, 3.0)]
    rho, tau = np.array(truth).T
    found = []
    for model, power in MODELS.items():
        curves = [squared_contrast(EXPOSURES_MS, t, power=power, beta=_MESI_BETA, rho=r) for r, t in truth]
        k2 = np.stack(curves, axis=1)
        settings = MesiSettings(model=model, beta=GivenBeta(static_k2=_MESI_BETA))
        clean = fit_mesi(np.sqrt(k2), EXPOSURES_MS, settings)
        error = max(float(np.abs(clean.tau_ms / tau - 1).max()), float(np.abs(clean.rho - rho).max()))
        noise = 1.0 + 0.02 * np.random.default_rng(8).standard_normal((*k2.shape, 400))
        noisy = fit_mesi(np.sqrt(k2[..., None] * noise), EXPOSURES_MS, settings)
        median = np.abs(np.median(noisy.tau_ms, axis=1) / tau - 1).max()
        found.append(error_finding(f"{model}, without noise", error, 1e-5))
        found.append(error_finding(f"{model}, 2 % noise, median of τ", float(median), 0.05))
    return found


CHECKS = (
    Check(name="exact sums", source="two passes in float64", run=_hard),
    Check(name="constant, bright pixel, ramp", source="closed forms", run=_closed),
    Check(name="device and CPU", source="the CPU backend", run=_backends),
    Check(name="inverse correlation time", source="closed form; Bandyopadhyay et al. 2005", run=_model),
    Check(name="sums of patterns", source="K = 1/√M, Goodman 1975", run=_patterns),
    Check(name="autoregressive flow", source="closed form of the phantom", run=_flow),
    Check(name="three tubes", source="closed form of the phantom", run=_tubes),
    Check(name="regions at low light", source="the same light without a camera", run=_low_light),
    Check(name="multi-exposure fit", source="closed forms; Parthasarathy et al. 2008", run=_mesi),
    *live_checks(lambda device: ContrastStream(ContrastSettings(mask=NoMask()), LIVE_SHAPE, np.uint16, device=device)),
)


def speckle_frames(count: int, shape: tuple[int, int] = FRAME_SHAPE) -> npt.NDArray[np.uint16]:
    """Simulate 12-bit frames of fully developed speckle without correlation between pixels."""
    light = np.random.default_rng(0).exponential(800.0, (count, *shape))
    return np.minimum(light, 4095).astype(np.uint16)


def _one_frame(device: Device) -> Callable[[], float]:
    (frame,) = speckle_frames(1)
    stream = ContrastStream(_SPEED_SETTINGS, FRAME_SHAPE, np.uint16, device=device)
    stream.slot()[...] = frame
    return lambda: float(stream.push(stream.slot()) is not None) * frame.size


def _stack(device: Device) -> Callable[[], float]:
    frames = np.repeat(speckle_frames(1), STACK, axis=0)
    return lambda: float(contrast(frames, _SPEED_SETTINGS, device=device).contrast.size)


SPEEDS = (
    Speed(name="one frame of 1392 x 1040, 5 x 5, K and SFI", unit="pixels", prepare=_one_frame),
    Speed(name=f"{STACK} frames of 1392 x 1040, whole call", unit="pixels", prepare=_stack),
)


# -- warm-ups ---------------------------------------------------------------------------------------------------------


def _tiny_contrast(dtype: npt.DTypeLike = np.uint16, settings: ContrastSettings | None = None) -> object:
    frames = np.arange(2 * 8 * 8).reshape(2, 8, 8).astype(dtype)
    return contrast(frames, settings, device=CPU)


_TINY_K = np.linspace(0.5, 0.2, 8)[:, None]
_OVER_FRAMES = ContrastSettings(mode=Temporal(frames=2))
WARMUPS = (
    WarmUp(name="contrast of 16-bit frames", run=_tiny_contrast, functions=27),
    WarmUp(
        name="contrast over frames",
        run=lambda: _tiny_contrast(settings=_OVER_FRAMES),
        functions=2,
    ),
    WarmUp(name="contrast of 8-bit frames", run=lambda: _tiny_contrast(np.uint8), functions=4),
    WarmUp(name="contrast of floating-point frames", run=lambda: _tiny_contrast(np.float32), functions=3),
    WarmUp(name="inverse correlation time", run=lambda: inverse_correlation_time(0.1, 10.0), functions=5),
    WarmUp(name="multi-exposure fit", run=lambda: fit_mesi(_TINY_K, np.geomspace(0.1, 20.0, 8)), functions=12),
)
