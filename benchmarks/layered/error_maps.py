"""Rows g, the paper's figure 7: how A(r, z) of skin differs from run to run, between backends, and from CPU-MCML."""

import importlib.util
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import Array, Row, line, skipped
from speed import Job

from layered import picture
from layered.plan import SKIN_GRID, Plan, skin_case
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.layered.run import simulate

BATCHES = 64  # so that an error is itself known to 9 %
REFERENCE = "CPU-MCML"  # with a Mersenne Twister and 8e8 photons
REFERENCE_PHOTONS = 800_000_000
SEEDS = {"CPU": 1, "CPU, another seed": 2, "GPU": 3}
KNOWN = 0.05  # bins with larger relative errors, in either map, are not compared
TARGET = "target 99 % within 3 errors"
COLUMNS = (
    "first", "photons", "second", "photons", "bins", "median difference", "within 1 error", "2 errors", "3 errors",
    "largest", "notes",
)  # fmt: skip


class Map(NamedTuple):
    """A(r, z) and its standard error, 1/mm^3, shape (radial, depth), and the number of photons behind them."""

    value: Array
    error: Array
    photons: int


class ErrorMaps:
    """Maps of skin, each traced once, and the file of how they differ, which grows pair by pair."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._traced: dict[tuple[str, int], Map] = {}
        self._differences: dict[str, Array] = {}

    def jobs(self) -> Iterator[Job]:
        """CPU against CPU and GPU against CPU with as many photons, and each against the reference."""
        pairs = [("CPU", "CPU, another seed"), ("CPU", REFERENCE)]
        if self._plan.device.is_gpu:
            pairs[:0] = [("GPU", REFERENCE), ("GPU", "CPU")]
        for first, second in pairs:
            yield Job(f"g {first} against {second}", partial(self._compared, first, second))

    def _compared(self, first: str, second: str, name: str) -> Row:
        if second == REFERENCE and not self._plan.reference.is_file():
            return skipped(name, f"there is no file {self._plan.reference.name}; --reference says where it is")
        as_many = REFERENCE_PHOTONS // self._plan.less if (first, second) == ("GPU", REFERENCE) else None
        mine, theirs = self._map(first, as_many), self._map(second)
        self._differences[f"{first} ({mine.photons:,}) against {second} ({theirs.photons:,})"] = percent(mine, theirs)
        write(self._plan.maps, self._differences)
        return {"name": name, "first": first, "second": second, **figures(mine, theirs), "file": self._plan.maps.name}

    def _map(self, source: str, photons: int | None = None) -> Map:
        if source == REFERENCE:
            return reference_map(self._plan.reference)
        count = self._plan.photons or photons or self._plan.map_photons
        count = max(1, count // BATCHES) * BATCHES  # whole batches only: the rest would have no part in the errors
        if (source, count) not in self._traced:
            device = self._plan.device if source == "GPU" else CPU
            self._traced[source, count] = traced_map(device, SEEDS[source], count)
        return self._traced[source, count]


def error_maps(plan: Plan) -> Iterator[Job]:
    return ErrorMaps(plan).jobs()


def traced_map(device: Device, seed: int, photons: int) -> Map:
    """Trace skin; what is absorbed beyond the grid is in the outermost bins, as MCML has it."""
    result = simulate(*skin_case(photons, seed=seed, batches=BATCHES), device=device)
    assert result.A_rz is not None
    return Map(*result.A_rz, result.launched)


def reference_map(path: Path) -> Map:
    """Return A(r, z) of CPU-MCML with a Mersenne Twister, by the authors of GPU-MCML; the file has 1/cm^3."""
    with np.load(path) as found:
        value, error = (found[key].astype(float) / 1000 for key in ("A_rz", "A_rz_sem"))
        return Map(value, error, int(found["nphoton_total"]))


def percent(mine: Map, theirs: Map) -> Array:
    """Relative difference, %, of each bin, shape (depth, radial) as in a picture; NaN where the second has no light."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 100 * (mine.value - theirs.value) / np.where(theirs.value > 0, theirs.value, np.nan)
    return np.ascontiguousarray(found.T.astype(np.float32))


def figures(mine: Map, theirs: Map) -> Row:
    """How far two maps differ in the bins that both know well."""
    known = np.logical_and(*((m.error > 0) & (m.error < KNOWN * m.value) for m in (mine, theirs)))
    difference, value = np.abs(mine.value - theirs.value)[known], theirs.value[known]
    z = difference / np.hypot(mine.error, theirs.error)[known]
    found = {
        "photons": mine.photons,
        "photons_of_second": theirs.photons,
        "bins": int(known.sum()),
        "bins_with_light": int((theirs.value > 0).sum()),
    }
    if not known.any():
        return found
    return found | {
        "median_relative_difference": float(np.median(difference / value)),
        "within": [float((z < bound).mean()) for bound in (1, 2, 3)],
        "largest_z": float(z.max()),
    }


def write(path: Path, differences: Mapping[str, Array]) -> None:
    """Write all maps so far, shape (pairs, depth, radial), and draw them where Pillow is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    titles, stacked = np.array(list(differences)), np.stack(list(differences.values()))
    dr_mm, dz_mm = SKIN_GRID["dr_mm"], SKIN_GRID["dz_mm"]
    np.savez_compressed(path, titles=titles, difference_percent=stacked, dr_mm=dr_mm, dz_mm=dz_mm)
    if importlib.util.find_spec("PIL") is not None:
        draw_again(path)


def draw_again(path: Path) -> Path:
    """Draw the maps of a file, and return where the picture is."""
    with np.load(path) as found:
        picture.draw(dict(found), path.with_suffix(".png"))
    return path.with_suffix(".png")


def map_line(r: Row) -> str:
    if "within" not in r:
        return line(r["name"], *[""] * (len(COLUMNS) - 2), "no bin has an error below 5 % in both: too few photons")
    return line(
        r["first"], f"{r['photons']:,}", r["second"], f"{r['photons_of_second']:,}", f"{r['bins']:,}",
        f"{100 * r['median_relative_difference']:.2f} %", *(f"{100 * share:.2f} %" for share in r["within"]),
        f"{r['largest_z']:.1f}", TARGET,
    )  # fmt: skip
