"""A T1 template with Rician noise that varies in space: PSNR of our settings beside peers.

The template is the MNI152 of nilearn's wheel (ICBM 2009a, 1 mm, 0 to 255): its middle, at 5/6 of its brightness. With a
peak of 255 and this noise, raw magnitudes (in all, and in the halves of low and high noise), both Gaussian filters,
and DIPY give within 0.1 dB (halves: 0.2 dB) what they gave where the targets come from, ANTs within 0.4 dB, BM4D 0.1 dB
more with the true map and 0.5 dB more with one sigma. The shape of the noise there is not known: of those that fit the
raw halves, it is the one with which DIPY, given the true map, comes nearest. Others move all filters together, 0.3 dB.
"""

import gzip
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Array, Row, line, missing
from scipy import ndimage

from denoise import peers
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.run import denoise
from napari_gpubio.denoise.settings import DenoiseSettings, Mixed

TEMPLATE = "datasets/data/mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"
CROP = (slice(68, 128), slice(86, 146), slice(64, 124))  # the middle
BRIGHTNESS, PEAK = 5 / 6, 255.0
MIN_SIGMA, MAX_SIGMA, STEEPNESS = 4.3, 12.0, 1.2  # the noise rises along x and y, away from a coil
TARGET = 39.37
SIGMA_OF_ONE_COIL = 13.0  # DIPY's estimate with N = 1, which is for background and far too large here
BEST: dict[str, Any] = {"noise_model": "rician", "cutoff": 3.0, "center": "largest", "patches": Mixed(mixing="mean")}
OURS: dict[str, dict[str, Any]] = {
    "anlm, Rician": {"noise_model": "rician"},
    "anlm, Rician, largest center": {"noise_model": "rician", "center": "largest"},
    "anlm, Rician, cut-off 3, largest center": {"noise_model": "rician", "cutoff": 3.0, "center": "largest"},
    "the same, no pre-selection": {
        "noise_model": "rician", "cutoff": 3.0, "center": "largest", "preselection": "none",
    },
    "the same, mean of both patches": BEST,
    "anlm, Gaussian, cut-off 3, largest center": {"cutoff": 3.0, "center": "largest"},
}  # fmt: skip
COLUMNS = ("filter", "PSNR", "low-noise half", "high-noise half", "mean bias, %", "seconds", "notes")
REFERENCES = {  # what was measured elsewhere in a like setting
    "raw": "30.15",
    "Gaussian 0.67, 5x5x5": "34.7",
    "Gaussian 1": "31.2",
    "anlm, Rician": "39.08",
    "anlm, Rician, cut-off 3, largest center": "39.37",
    "DIPY nlmeans, sigma 13": "37.86",
    "DIPY nlmeans, true map": "38.84",
    "DIPY ASCM, sigma 13": "38.04",
    "ANTs DenoiseImage": "32.39",
    "BM4D, rms sigma": "38.99",
    "BM4D, true map": "39.99",
}


class Scan(NamedTuple):
    """A crop without noise, and the standard deviation of its noise."""

    truth: Array
    sigma: Array

    def realization(self, seed: int) -> Array:
        """Magnitudes."""
        real, imaginary = np.random.default_rng(seed).normal(size=(2, *self.truth.shape)) * self.sigma
        return np.hypot(self.truth + real, imaginary)


def find_template() -> Path | None:
    """Where nilearn keeps its template, if it is installed."""
    found = importlib.util.find_spec("nilearn")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / TEMPLATE


def read_scan(path: Path) -> Scan:
    """Read the template or a crop of it that was written by `write_crop`."""
    if path.suffix == ".npz":
        with np.load(path) as found:
            crop = found["crop"]
    else:
        crop = _read_bytes(path)[CROP]
    return Scan(BRIGHTNESS * crop.astype(np.float64), noise_map(crop.shape))


def write_crop(scan: Scan, path: Path) -> None:
    """Write the crop for a machine without the template (100 kB)."""
    np.savez_compressed(path, crop=np.rint(scan.truth / BRIGHTNESS).astype(np.uint8))


def _read_bytes(path: Path) -> Array:
    """A gzipped NIfTI file of bytes, whose header has 352 of them, without nibabel."""
    raw = gzip.decompress(path.read_bytes())
    shape = tuple(map(int, np.frombuffer(raw, "<i2", 3, 42)))
    return np.frombuffer(raw, np.uint8, int(np.prod(shape)), 352).reshape(shape, order="F")


def noise_map(shape: tuple[int, ...]) -> Array:
    """Sigma of the noise: from 4.3 at one edge, x = y = 0, to 12 at the opposite one."""
    x, y, _ = np.meshgrid(*(np.linspace(0.0, 1.0, n) for n in shape), indexing="ij")
    return MIN_SIGMA + (MAX_SIGMA - MIN_SIGMA) * ((x + y) / 2) ** STEEPNESS


Apply = Callable[[Array, Array], Array]  # (magnitudes, true sigma) -> denoised


def make_filters(device: Device) -> Mapping[str, Apply | str]:
    """Filters by name, or why there is none."""
    found: dict[str, Apply | str] = {
        "raw": lambda noisy, _: noisy,
        "Gaussian 0.67, 5x5x5": lambda noisy, _: ndimage.gaussian_filter(noisy, 0.67, radius=2),
        "Gaussian 1": lambda noisy, _: ndimage.gaussian_filter(noisy, 1.0),
    }
    for name, options in OURS.items():
        found[name] = _ours(DenoiseSettings(**options), device)
    mapped = {"anlm, Rician": {"noise_model": "rician"}, "the same, mean of both patches": BEST}
    for name, options in mapped.items():
        found[f"{name}, true map"] = _ours(DenoiseSettings(**options), device, knows=True)
    return found | _theirs()


def _ours(settings: DenoiseSettings, device: Device, *, knows: bool = False) -> Apply:
    return lambda noisy, sigma: denoise(noisy, settings, noise=sigma if knows else None, device=device).image


def _theirs() -> dict[str, Apply | str]:
    def rms(sigma: Array) -> float:
        return float(np.sqrt(np.mean(sigma**2)))

    filters: dict[str, tuple[str, Apply]] = {
        "DIPY nlmeans, estimated sigma": (
            "DIPY", lambda u, _: peers.dipy_nlmeans(u, peers.dipy_estimate(u), rician=True)
        ),
        "DIPY nlmeans, sigma 13": ("DIPY", lambda u, _: peers.dipy_nlmeans(u, SIGMA_OF_ONE_COIL, rician=True)),
        "DIPY nlmeans, true map": ("DIPY", lambda u, sigma: peers.dipy_nlmeans(u, sigma, rician=True)),
        "DIPY ASCM, sigma 13": ("DIPY", lambda u, _: peers.dipy_ascm(u, SIGMA_OF_ONE_COIL, rician=True)),
        "ANTs DenoiseImage": ("ANTs", lambda u, _: peers.ants_denoise(u, rician=True)),
        "BM4D, rms sigma": ("BM4D", lambda u, sigma: peers.bm4d_denoise(u, rms(sigma))),
        "BM4D, true map": ("BM4D", peers.bm4d_denoise),
    }  # fmt: skip
    return {name: missing(peers.PACKAGES, package) or apply for name, (package, apply) in filters.items()}


def rows(scan: Scan, filters: Mapping[str, Apply | str], realizations: int) -> Iterator[Row]:
    """PSNR of each filter, mean over realizations of the squared error."""
    for name, apply in filters.items():
        if isinstance(apply, str):
            yield {"filter": name, "skipped": apply}
            continue
        try:
            yield {"filter": name, **_measured(scan, apply, realizations)}
        except Exception as error:  # noqa: BLE001 - the other filters go on
            yield {"filter": name, "skipped": f"failed: {type(error).__name__}: {error}"}


def _measured(scan: Scan, apply: Apply, realizations: int) -> Row:
    squares, ratios, seconds = np.zeros(scan.truth.shape), [], []
    for seed in range(realizations):
        noisy = scan.realization(seed)
        begun = time.perf_counter()
        found = apply(noisy, scan.sigma)
        seconds.append(time.perf_counter() - begun)
        squares += (found - scan.truth) ** 2 / realizations
        ratios.append(float(np.mean(found) / np.mean(scan.truth)))
    low = scan.sigma < np.median(scan.sigma)
    return {
        "psnr": psnr(squares),
        "psnr_low_noise": psnr(squares[low]),
        "psnr_high_noise": psnr(squares[~low]),
        "bias": float(np.mean(ratios)) - 1,
        "seconds": float(np.median(seconds)),
    }


def psnr(squares: Array) -> float:
    """Peak signal-to-noise ratio from squared errors, dB, for a peak of 255."""
    return float(10 * np.log10(PEAK**2 / np.mean(squares)))


def mri_line(row: Row) -> str:
    if "skipped" in row:
        return line(row["filter"], *[""] * (len(COLUMNS) - 2), f"skipped: {row['skipped']}")
    notes = [f"reference {REFERENCES[row['filter']]}"] if row["filter"] in REFERENCES else []
    return line(
        row["filter"], f"{row['psnr']:.2f}", f"{row['psnr_low_noise']:.1f}", f"{row['psnr_high_noise']:.1f}",
        f"{100 * row['bias']:+.2f}", f"{row['seconds']:.3g}", "; ".join(notes),
    )  # fmt: skip
