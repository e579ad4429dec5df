"""How often fibers from one end of a bundle reach its other end, by method and metric, on the real brain.

Repeats the like-for-like table of ``tracts.md``, section 2.5, beside its figures::

    python benchmarks/fibers_reach.py

`benchmarks/README.md` has the protocol, and what is known about the differences.
"""

import argparse
import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from common import Array, Report, header, line, result_path, table, written
from fibers.brain import BRAIN, Brain, load_brain
from fibers_accuracy import CEILING, capped
from scipy import ndimage

from napari_gpubio.core.philox import uniform
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion.fods import FixelField, FodField, Tournier
from napari_gpubio.diffusion.fods.estimate import estimate_response
from napari_gpubio.diffusion.fods.run import deconvolve, find_peaks
from napari_gpubio.diffusion.io.dwi import read_mask
from napari_gpubio.diffusion.kernels.tensors.cpu import eigen_decompose
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.fibers.directions import Cone, Directions, FromFod, Principal
from napari_gpubio.fibers.kernels.rays.problem import continued
from napari_gpubio.fibers.metrics import Adaptive, Adjugate, Sharpened
from napari_gpubio.fibers.run import track
from napari_gpubio.fibers.settings import METHODS, EuDX, Hamiltonian, TensorMethod, VanAart2011, as_method
from napari_gpubio.tractograms.model import Tractogram

Cell = dict[str, float]
Tracer = Callable[[TensorField, Array], Tractogram]

SEEDS, FA_STOP, IN_BUNDLE = 1000, 0.1, 0.8
# Which end the seeds lie in. The reference does not say; this choice comes nearest to its figures.
START = {"CST_left": "e", "CC_2": "b", "CC_7": "b", "AF_left": "b", "CG_left": "e"}
BASE = Hamiltonian(step_mm=0.5, fa_stop=FA_STOP, min_length_mm=0.0)
SCORES = ("alignment_fa", "mean_fod", "mean_amplitude")  # the first that fibers have
BOTH_WAYS = Principal()
# tracts.md, section 2.5: reach %, share of arrivals that are at least 80 % in the bundle, %
REFERENCE: dict[str, tuple[tuple[float, float], ...]] = {
    "EuDX": ((27.3, 85), (20.5, 95), (19.4, 89), (10.2, 30), (36.7, 61)),
    "D^-1": ((3.9, 15), (4.4, 82), (4.9, 71), (3.7, 30), (23.2, 34)),
    "D^-2": ((3.7, 16), (5.9, 85), (6.2, 73), (3.7, 11), (23.6, 37)),
    "D^-3": ((4.7, 17), (4.1, 80), (6.3, 81), (5.3, 15), (21.8, 44)),
    "D^-4": ((6.0, 5), (3.5, 83), (6.2, 69), (5.4, 22), (22.1, 42)),
    "adjugate": ((0.0, math.nan), (3.4, 68), (3.5, 89), (1.0, 10), (15.8, 28)),
}


@dataclass(frozen=True, eq=False, slots=True)
class Bundle:
    """One bundle of the silver standard."""

    name: str
    starts: Array  # voxels of the end region that seeds may lie in, shape (n, 3)
    target: Array  # the other end region
    near: Array  # the bundle, one voxel wider


def load_bundle(name: str, field: TensorField, start: str) -> Bundle:
    """Read a bundle's end regions and mask; seeds lie where FA passes the stop."""

    def mask(path: str) -> Array:
        return read_mask(BRAIN / path, field.shape, field.affine)

    other = "e" if start == "b" else "b"
    allowed = mask(f"endings/{name}_{start}.nii.gz") & (fa_map(field) > FA_STOP)
    near = ndimage.binary_dilation(mask(f"bundle_masks/{name}.nii.gz"), np.ones((3, 3, 3)))
    return Bundle(name, np.argwhere(allowed), mask(f"endings/{name}_{other}.nii.gz"), near)


def random_points(bundle: Bundle, affine: Array, count: int, draw: int) -> Array:
    """Random points in the start region, world mm."""
    u = uniform(1000 + draw, 0, count, 4).astype(np.float64)
    return apply_affine(affine, bundle.starts[(u[:, 0] * len(bundle.starts)).astype(int)] + u[:, 1:] - 0.5)


def per_fiber_share(fibers: Tractogram, region: Array) -> npt.NDArray[np.float64]:
    """Share of each fiber's points whose voxel is in a region."""
    voxel = np.floor(apply_affine(np.linalg.inv(fibers.affine), fibers.points) + 0.5).astype(int)
    inside = region[tuple(np.clip(voxel, 0, np.array(region.shape) - 1).T)]
    return np.add.reduceat(inside, fibers.offsets[:-1], dtype=np.float64) / fibers.counts


# ------------------------------------------------------------------------------------------------------------- methods
def traced(**changes: Any) -> Tracer:
    """Track both ways along v1 with changes to the base settings."""
    settings = changed(**changes)
    return lambda field, seeds: track(field, seeds, BOTH_WAYS, settings, device="cpu")


def changed(method: type[TensorMethod] = Hamiltonian, **changes: Any) -> Any:
    """The same settings but for some, or of another method."""
    return dataclasses.replace(as_method(method, BASE), **changes)


def tensor_fa_stop(**changes: Any) -> Tracer:
    """The same, but ended where the FA of the interpolated tensor (not the interpolated FA) falls below the stop."""
    settings = changed(fa_stop=0.0, **changes)

    def work(field: TensorField, seeds: Array) -> Tractogram:
        fibers = track(field, seeds, BOTH_WAYS, settings, device="cpu")
        return cut(fibers, seeds, tensor_fa(field, fibers.points) >= FA_STOP)

    return work


def tensor_fa(field: TensorField, points: Array) -> Array:
    """FA of the trilinearly interpolated tensor at world positions."""
    voxel = apply_affine(np.linalg.inv(field.affine), points).T
    whole = continued(field.tensors, field.mask)
    tensors = [ndimage.map_coordinates(whole[..., c], voxel, order=1, mode="nearest") for c in range(6)]
    return fractional_anisotropy(eigen_decompose(np.stack(tensors, axis=-1))[0])


def cut(fibers: Tractogram, seeds: Array, good: Array) -> Tractogram:
    """Keep of each fiber the stretch around its seed where every point is good."""
    kept, counts = np.zeros(len(fibers.points), bool), [0]
    for n, seed in enumerate(fibers.per_fiber["seed"]):
        first, last = fibers.offsets[n], fibers.offsets[n + 1]
        middle = int(np.abs(fibers.points[first:last] - seeds[seed]).sum(axis=1).argmin())
        bad = np.flatnonzero(~good[first:last])
        low = int(max((b for b in bad if b < middle), default=-1)) + 1
        high = int(min((b for b in bad if b > middle), default=last - first))
        kept[first + low : first + high] = True
        counts.append(high - low)
    return dataclasses.replace(fibers, points=fibers.points[kept], offsets=np.cumsum(counts), per_point={})


def on_capped(tracer: Tracer) -> Tracer:
    """The same on tensors whose eigenvalues have a ceiling."""
    made: dict[int, TensorField] = {}

    def work(field: TensorField, seeds: Array) -> Tractogram:
        if id(field) not in made:
            made[id(field)] = capped(field)
        return tracer(made[id(field)], seeds)

    return work


def fan(half_angle_deg: float, count: int, **changes: Any) -> Tracer:
    """A cone of directions at each seed instead of v1 alone."""
    settings = changed(**changes)
    directions = Cone(count=count, half_angle_deg=half_angle_deg)
    return lambda field, seeds: track(field, seeds, directions, settings, device="cpu")


EUDX = {"method": EuDX, "integrator": "euler"}
TRACERS: dict[str, Tracer] = {
    "EuDX": traced(**EUDX),
    "D^-1": traced(),
    **{f"D^-{p}": traced(metric=Sharpened(power=float(p))) for p in (2, 3, 4)},
    "adjugate": traced(metric=Adjugate()),
}
VARIANTS: dict[str, Tracer] = {
    "EuDX, RK4": traced(method=EuDX, integrator="rk4"),
    "EuDX, FA of the interpolated tensor": tensor_fa_stop(**EUDX),
    "EuDX, FA stop 0.2": traced(**EUDX | {"fa_stop": 0.2}),
    "EuDX, DIPY's rule": traced(**EUDX | {"corner_angle_deg": 60.0, "corner_weight": 0.5}),
    "D^-1, seed's scheme": traced(method=VanAart2011, integrator="rk2"),
    "D^-1, trilinear": traced(interpolation="linear"),
    "D^-1, step 0.2 mm": traced(step_mm=0.2),
    "D^-1, eigenvalue floor 1e-6": traced(eigenvalue_floor_mm2_per_s=1e-6),
    f"D^-1, eigenvalue ceiling {CEILING:g}": on_capped(traced()),
    "D^-1, FA of the interpolated tensor": tensor_fa_stop(),
    "D^-1, FA stop 0.2": traced(fa_stop=0.2),
    "adaptive": traced(metric=Adaptive()),
    "adjugate, eigenvalue floor 1e-6": traced(metric=Adjugate(), eigenvalue_floor_mm2_per_s=1e-6),
    "adjugate, eigenvalue floor 5e-4": traced(metric=Adjugate(), eigenvalue_floor_mm2_per_s=5e-4),
}
FANS: dict[str, Tracer] = {
    "D^-1, 20 directions in 15 degrees": fan(15.0, 20),
    "D^-2, 20 directions in 15 degrees": fan(15.0, 20, metric=Sharpened()),
    "D^-2, 20 directions in 30 degrees": fan(30.0, 20, metric=Sharpened()),
    "adjugate, 20 directions in 15 degrees": fan(15.0, 20, metric=Adjugate()),
}


# ------------------------------------------------------------------------------------------------- where fibers cross
def crossing_methods(brain: Brain) -> dict[str, Tracer]:
    """Methods that know several directions in a voxel: one fiber from each seed, which the FOD begins."""
    response = estimate_response(brain.scan, brain.field.mask, Tournier(), field=brain.field, device="cpu")
    fods = deconvolve(brain.scan, response, brain.field.mask, device="cpu")
    fixels = find_peaks(fods, device="cpu")
    streamlines = {
        label: crossing(fods, method, **changes)
        for label, method, changes in (
            ("SD_STREAM", "sd_stream", {}),
            ("iFOD1", "ifod1", {}),
            ("iFOD2", "ifod2", {}),
            ("iFOD1, 10 fibers a seed", "ifod1", {"count": 10}),
            ("iFOD2, 10 fibers a seed", "ifod2", {"count": 10}),
            ("iFOD2 of at most 30 degrees, 10 fibers a seed", "ifod2", {"count": 10, "max_angle_deg": 30.0}),
        )
    }
    fan = Cone(count=10, half_angle_deg=15.0)
    geodesics = {
        f"{label}{suffix}": crossing(field, method, directions)
        for label, field, method in (
            ("fixel geodesic", fixels, "fixel_geodesic"),
            ("lifted geodesic", fods, "lifted_geodesic"),
        )
        for suffix, directions in (("", BOTH_WAYS), (", 10 directions in 15 degrees", fan))
    }
    return streamlines | geodesics


def crossing(
    field: FodField | FixelField, method: str, directions: Directions | None = None, count: int = 1, **changes: Any
) -> Tracer:
    """Track in FODs or fixels with a method's usual settings; without directions those drawn from the FOD."""
    settings = METHODS[method](min_length_mm=0.0, **changes)
    chosen = directions or FromFod(count=count)
    return lambda _, seeds: track(field, seeds, chosen, settings, device="cpu")


# --------------------------------------------------------------------------------------------------------------- score
def arrivals(fibers: Tractogram, bundle: Bundle) -> npt.NDArray[np.bool_]:
    """For each seed that arrives, whether its best fiber is in the bundle: by alignment x FA, mean FOD or amplitude."""
    hits = np.flatnonzero(per_fiber_share(fibers, bundle.target) > 0)
    score = next(fibers.per_fiber[name] for name in SCORES if name in fibers.per_fiber)
    best_first = hits[np.argsort(-score[hits], kind="stable")]
    _, first = np.unique(fibers.per_fiber["seed"][best_first], return_index=True)
    return per_fiber_share(fibers, bundle.near)[best_first[first]] >= IN_BUNDLE


def measured(tracer: Tracer, field: TensorField, bundle: Bundle, count: int, draws: int) -> Cell:
    """Reach and in-bundle share of one method in one bundle, over some draws of the seeds."""
    found = [arrivals(tracer(field, random_points(bundle, field.affine, count, n)), bundle) for n in range(draws)]
    reach = np.array([len(f) / count for f in found])
    pooled = np.concatenate(found)
    return {
        "reach_percent": 100 * float(reach.mean()),
        "reach_sd_percent": 100 * float(reach.std(ddof=1)) if draws > 1 else math.nan,
        "in_bundle_percent": 100 * float(pooled.mean()) if len(pooled) else math.nan,
        "arrivals": len(pooled),
        "seeds": count * draws,
    }


def beside_reference(cell: Cell, reference: tuple[float, float]) -> Cell:
    """Add the reference's figures and the z-score of the reach (binomial errors of both)."""
    p, q = cell["reach_percent"] / 100, reference[0] / 100
    error = math.sqrt(max(p * (1 - p), 1e-4) / cell["seeds"] + max(q * (1 - q), 1e-4) / SEEDS)
    figures = {"reference_reach_percent": reference[0], "reference_in_bundle_percent": reference[1]}
    return cell | figures | {"z": (p - q) / error}


def rows(field: TensorField, methods: dict[str, Tracer], count: int, draws: int) -> Iterator[tuple[str, list[Cell]]]:
    bundles = [load_bundle(name, field, start) for name, start in START.items()]
    for label, tracer in methods.items():
        cells = [measured(tracer, field, bundle, count, draws) for bundle in bundles]
        if label in REFERENCE:
            cells = [beside_reference(c, r) for c, r in zip(cells, REFERENCE[label], strict=True)]
        yield label, cells


def both_ends(field: TensorField, count: int) -> Iterator[tuple[str, list[Cell]]]:
    """EuDX and D^-1 with the seeds in either end: how much the choice of the end matters."""
    for start in "be":
        bundles = [load_bundle(name, field, start) for name in START]
        for label in ("EuDX", "D^-1"):
            yield f"{label}, seeds in _{start}", [measured(TRACERS[label], field, b, count, 1) for b in bundles]


# -------------------------------------------------------------------------------------------------------------- report
def without_nan(made: dict[str, list[Cell]]) -> dict[str, list[dict[str, float | None]]]:
    return {
        label: [{k: None if math.isnan(v) else v for k, v in cell.items()} for cell in cells]
        for label, cells in made.items()
    }


def percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0f}"


def cell_text(cell: Cell) -> str:
    """Reach and share as the reference writes them, and the reference's own in brackets."""
    spread = "" if math.isnan(cell["reach_sd_percent"]) else f" ± {cell['reach_sd_percent']:.1f}"
    text = f"{cell['reach_percent']:.1f}{spread} / {percent(cell['in_bundle_percent'])}"
    if "z" in cell:
        reference = f"{cell['reference_reach_percent']:.1f} / {percent(cell['reference_in_bundle_percent'])}"
        text += f" ({reference}; z {cell['z']:+.1f})"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3, help="independent draws of the 1000 seeds")
    parser.add_argument("--quick", action="store_true", help="the reference's rows only, one draw")
    parser.add_argument("--crossing", action="store_true", help="the methods for crossing fibers only")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    arguments = parser.parse_args()
    brain = load_brain(None)
    if isinstance(brain, str):
        raise SystemExit(brain)
    draws = 1 if arguments.quick else arguments.draws
    tables = {} if arguments.crossing else {"The reference's table": rows(brain.field, TRACERS, SEEDS, draws)}
    tables["Where fibers cross"] = rows(brain.field, crossing_methods(brain), SEEDS, draws)
    if not (arguments.quick or arguments.crossing):
        tables["What changes it"] = rows(brain.field, VARIANTS, SEEDS, draws)
        tables["Seeds in either end"] = both_ends(brain.field, SEEDS)
        tables["Fans: a seed counts if one fiber of its fan arrives, the best by alignment x FA"] = rows(
            brain.field, FANS, SEEDS, 1
        )
    starts = ", ".join(f"{name} _{start}" for name, start in START.items())
    method = (
        f"{SEEDS} seeds in each of {draws} draws, random in the end region ({starts}) where FA > {FA_STOP}; both ways "
        f"along v1; step 0.5 mm, stops: brain mask and FA {FA_STOP}. Cells: share of seeds whose fiber enters the "
        f"other end region, % ± the spread of the draws / share of those with {100 * IN_BUNDLE:g} % of their points in "
        "the bundle widened by one voxel, % (the reference's figures; z of the reach from binomial errors). The start "
        "end of each bundle was chosen as the one that comes nearest to the reference, so the agreement is partly "
        "fitted; both ends are below."
    )
    facts = header(arguments.quick) | {"start": START}
    path = result_path(arguments.json, "fibers_reach", facts["date"])
    report = Report(path, "Reach of five bundles by method and metric", facts, method)
    for title, made in tables.items():
        cells = dict(made)
        lines = [line(label, *map(cell_text, found)) for label, found in cells.items()]
        report.add(title, title, without_nan(cells), *table(["", *START], lines))
    print(written(path))


if __name__ == "__main__":
    main()
