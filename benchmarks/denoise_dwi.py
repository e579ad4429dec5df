"""The Rician filter on a diffusion scan: noise, shift of means, and bias of FA; see `benchmarks/README.md`.

Run from anywhere::

    python benchmarks/denoise_dwi.py --scan folder                     # of dwi.nii.gz, dwi.bval, dwi.bvec and a mask
    python benchmarks/denoise_dwi.py --scan folder --map dwidenoise=noise.nii.gz --map DIPY=sigma.nii.gz

Maps are those of other programs: ``dwidenoise -noise`` of MRtrix, ``mppca(..., return_sigma=True)`` of DIPY.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import Array, Report, argument_parser, header, result_path, table

from napari_gpubio import denoise, diffusion
from napari_gpubio.core.volumes import read_array

RICIAN = denoise.DenoiseSettings(noise_model="rician")
SNRS = (5, 10, 20, 40)  # mean of b = 0 in the brain over sigma
COUNTS = (6, 8, 10, 16, 24, 33)  # volumes
BOX = (slice(16, 58), slice(16, 72), slice(28, 46))  # of the synthetic series: all of the brain in some slices
MIN_FA = 0.2  # of the truth, where its bias is given


def alone(values: Array, mask: Array) -> Array:
    """Each volume with the noise found in it alone, as any series was before."""
    images = (denoise.denoise(values[..., n], RICIAN, mask=mask, device="cpu").image for n in range(values.shape[3]))
    return np.stack(list(images), -1)


def across(values: Array, mask: Array) -> Array:
    """With the one noise of the series."""
    return denoise.denoise(values, RICIAN, mask=mask, device="cpu").image


def without_correction(values: Array, mask: Array) -> Array:
    """The same noise, as a number that is given, and no Rician correction."""
    sigma = denoise.noise.estimate(values, mask=mask).sigma
    settings = replace(RICIAN, noise_model="gaussian")
    return denoise.denoise(values, settings, mask=mask, noise=sigma, device="cpu").image


FILTERS = {"each volume alone": alone, "across volumes": across, "across volumes, not corrected": without_correction}


def sigma_rows(values: Array, mask: Array, maps: dict[str, Array]) -> Iterator[dict[str, Any]]:
    """The noise of the scan, by us and by others, over the voxels of the mask."""
    begun = time.perf_counter()
    found = denoise.noise.estimate(values, mask=mask)
    seconds = time.perf_counter() - begun
    yield {"by": "denoise.noise.estimate", "sigma": found.sigma, "range": found.percentiles, "seconds": seconds}
    begun = time.perf_counter()
    mapped = denoise.noise.estimate(values, mask=mask, wants_map=True).map
    seconds = time.perf_counter() - begun
    for name, field in ({"its map": mapped} | maps).items():
        inside = field[mask & np.isfinite(field) & (field > 0)]
        low, middle, high = np.percentile(inside, (5, 50, 95))
        yield {"by": name, "sigma": middle, "range": (low, high), "seconds": seconds if name == "its map" else None}
    for count in COUNTS:
        if denoise.noise.FEWEST_VOLUMES <= count < values.shape[3]:
            found = denoise.noise.estimate(values[..., :count], mask=mask)
            yield {"by": f"of {count} volumes", "sigma": found.sigma, "range": found.percentiles, "seconds": None}


def shift_rows(values: Array, mask: Array, is_b0: Array) -> Iterator[tuple[dict[str, Any], Array]]:
    """How the mean of each volume in the mask changes, in percent, and the denoised series."""
    before = values[mask].mean(axis=0, dtype=np.float64)
    for name, filtered in FILTERS.items():
        image = filtered(values, mask)
        shift = 100 * (image[mask].mean(axis=0, dtype=np.float64) / before - 1)
        weighted = shift[~is_b0]
        yield (
            {
                "filter": name,
                "b0": float(shift[is_b0].mean()),
                "weighted": float(weighted.mean()),
                "largest": float(np.abs(shift).max()),
                "each": [round(float(number), 3) for number in shift],
            },
            image,
        )


def fa_of(scan: Any, values: Array, mask: Array) -> Array:
    """FA of the tensor fit."""
    field = diffusion.fit_tensors(replace(scan, data=values.astype(np.float32), path=None), mask=mask, device="cpu")
    return np.asarray(diffusion.tensors.scalar_map(field, "FA"))


def synthetic_rows(scan: Any, truth: Array, mask: Array, is_b0: Array) -> Iterator[dict[str, Any]]:
    """Magnitudes of a fitted tensor field whose FA is known: the bias of FA, of means, and the error left."""
    rng = np.random.default_rng(0)
    true_fa = fa_of(scan, truth, mask)
    chosen = mask & (true_fa > MIN_FA)
    level = float(truth[mask][:, is_b0].mean())
    for snr in SNRS:
        sigma = level / snr
        raw = np.hypot(*(part + sigma * rng.normal(size=truth.shape) for part in (truth, 0.0))).astype(np.float32)
        found = denoise.noise.estimate(raw, mask=mask).sigma
        for name, filtered in ({"raw": lambda values, _: values} | FILTERS).items():
            image = filtered(raw, mask)
            means = 100 * (image[mask].mean(axis=0, dtype=np.float64) / truth[mask].mean(axis=0) - 1)
            error = fa_of(scan, image, mask)[chosen] - true_fa[chosen]
            yield {
                "snr": snr, "sigma_share": found / sigma, "filter": name, "fa_bias": float(error.mean()),
                "fa_rms": float(np.sqrt(np.mean(np.square(error)))), "b0": float(means[is_b0].mean()),
                "weighted": float(means[~is_b0].mean()),
                "rms": float(np.sqrt(np.mean(np.square(image[mask] - truth[mask]))) / sigma),
            }  # fmt: skip


def run_scan(report: Report, folder: Path, maps: dict[str, Array]) -> None:
    """All tables of one scan."""
    scan = diffusion.io.read_dwi(folder / "dwi.nii.gz")
    values, is_b0 = np.asarray(scan.data, np.float32), np.asarray(scan.bvals) < 50
    mask = next(path for name in ("nodif_brain_mask.nii.gz", "mask.nii.gz") if (path := folder / name).is_file())
    inside = read_array(mask)[0] != 0
    rows = list(sigma_rows(values, inside, maps))
    lines = [
        f"| {row['by']} | {row['sigma']:.1f} | {row['range'][0]:.0f} to {row['range'][1]:.0f} | "
        f"{'' if row['seconds'] is None else format(row['seconds'], '.2f')} |"
        for row in rows
    ]
    title = f"Noise of {folder.name}, {' x '.join(map(str, values.shape))}"
    report.add("sigma", title, rows, *table(("by", "σ, median", "5 to 95 %", "seconds"), lines))
    found = list(shift_rows(values, inside, is_b0))
    raw_fa = fa_of(scan, values, inside)
    chosen = inside & (raw_fa > MIN_FA)
    lines = []
    for row, image in found:
        row["fa"] = float((fa_of(scan, image, inside)[chosen] - raw_fa[chosen]).mean())
        lines.append(
            f"| {row['filter']} | {row['b0']:+.2f} | {row['weighted']:+.2f} | {row['largest']:.2f} | {row['fa']:+.4f} |"
        )
    columns = ("filter", "b0, %", "weighted, %", "largest of any volume, %", f"FA, where raw FA > {MIN_FA}")
    report.add("shifts", "Change of means in the brain mask", [row for row, _ in found], *table(columns, lines))
    part = replace(scan, data=values[BOX], path=None)
    tensors = diffusion.fit_tensors(part, mask=inside[BOX], device="cpu")
    truth, good = signals_of(tensors, scan)
    rows = list(synthetic_rows(part, truth, good, is_b0))
    lines = [
        f"| {row['snr']} | {row['sigma_share']:.3f} | {row['filter']} | {row['fa_bias']:+.4f} | {row['fa_rms']:.4f} | "
        f"{row['b0']:+.2f} | {row['weighted']:+.2f} | {row['rms']:.2f} |"
        for row in rows
    ]
    columns = (
        "b0 / σ",
        "σ found / true",
        "filter",
        "FA bias",
        "FA error, rms",
        "b0, %",
        "weighted, %",
        "error / σ, rms",
    )
    report.add("synthetic", "Magnitudes made of fitted tensors, against the truth", rows, *table(columns, lines))


def signals_of(field: Any, scan: Any) -> tuple[Array, Array]:
    """Signals that a tensor field gives without noise, shape (X, Y, Z, N), and where its tensors were not repaired."""
    xx, yy, zz, xy, xz, yz = np.moveaxis(np.asarray(field.tensors, np.float64), -1, 0)[..., None]
    x, y, z = np.asarray(scan.directions, np.float64).T
    along = xx * x * x + yy * y * y + zz * z * z + 2 * (xy * x * y + xz * x * z + yz * y * z)
    good = field.mask & ~field.repaired
    return np.where(good[..., None], field.s0[..., None] * np.exp(-np.asarray(scan.bvals) * along), 0.0), good


def parsed() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--scan", type=Path, required=True, help="folder of a diffusion scan")
    parser.add_argument("--map", action="append", default=[], metavar="NAME=FILE", help="noise by another program")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    head = header(quick=False)
    path = result_path(arguments.json, "denoise_dwi", head["date"])
    report = Report(path, "The Rician filter on a diffusion scan", head)
    maps = {name: read_array(file)[0] for name, file in (text.split("=", 1) for text in arguments.map)}
    run_scan(report, arguments.scan, maps)


if __name__ == "__main__":
    main()
