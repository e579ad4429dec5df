"""What the standard errors are worth, where the energy goes, and how the errors fall with the number of photons."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from common import Array, Row, line

from light.plan import ROULETTE, Plan, case, with_settings
from light.tracing import call
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.light.benchmarks import BENCHMARKS
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.theory import fluence_semi_infinite

BANDS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # of a voxel's fluence, 1/mm^2
RHO_MM = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 17.0, 20.0)
DEPTH_MM = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0)
NEAR = {"rho_mm": (8.0, 14.0), "depth_mm": (2.0, 15.0)}  # where diffusion theory is held against the simulation
# The layered reference (CPU-MCML with a Mersenne Twister, 8e8 photons): Rsp, and Rd + T with its error
SKIN_SPECULAR, SKIN_ESCAPED = 0.0438845, (0.562552 + 0.0032640, 1.5e-5)
THRESHOLDS = (1e-4, 1e-2, 0.5)  # of the roulette
SPREAD_COLUMNS = ("case", "quantity", "mean", "reported error", "spread over seeds", "ratio", "expected")
SCALING_COLUMNS = (
    "photons",
    "relative error in the region",
    "times √N",
    "voxel under the beam (1/mm²)",
    "z to the last",
)
ENERGY_COLUMNS = (
    "case", "roulette below", "specular", "missed", "absorbed", "escaped", "truncated", "roulette", "z of roulette",
    "sum - 1", "smallest voxel",
)  # fmt: skip
SKIN_COLUMNS = ("layer", "reference", "±", "ours", "±", "difference", "z")


def repeated(name: str, plan: Plan, photons: int, seeds: Sequence[int]) -> list[LightResult]:
    made = case(name)
    return [call(with_settings(made, photons=photons, seed=seed), plan.device)() for seed in seeds]


# -------------------------------------------------------------------------------------------------------------- spread
def spread_rows(name: str, results: Sequence[LightResult]) -> Iterator[Row]:
    """Reported standard errors beside the spread over seeds, of the balance and of voxels by their fluence."""
    for part in ("absorbed", "escaped", "truncated", "roulette"):
        found = [getattr(result.energy, part) for result in results]
        values, errors = np.array(found).T
        if values.std() > 0:
            yield _spread(name, part, values[:, None], errors[:, None])
    fluence = np.array([result.fluence for result in results], np.float64).reshape(len(results), -1)
    errors = np.array([result.fluence_error for result in results], np.float64).reshape(len(results), -1)
    mean = fluence.mean(axis=0)
    for high, low in itertools.pairwise(BANDS):
        inside = (mean > low) & (mean <= high)
        if inside.any():
            label = f"{inside.sum():,} voxels of {low:g} to {high:g} /mm²"
            yield _spread(name, label, fluence[:, inside], errors[:, inside])


def _spread(name: str, quantity: str, values: Array, errors: Array) -> Row:
    """Root mean squares over what is given, shape (seeds, things); things that vary together make it less certain."""
    reported, seen = np.sqrt((errors**2).mean()), np.sqrt(values.var(axis=0, ddof=1).mean())
    return {
        "case": name,
        "quantity": quantity,
        "seeds": len(values),
        "mean": float(values.mean()),
        "reported": float(reported),
        "spread": float(seen),
        "ratio": float(reported / seen),
        "ratio_error": float(1 / np.sqrt(2 * (len(values) - 1))) if values.shape[1] == 1 else None,
    }


def spread_line(r: Row) -> str:
    expected = "1" if r["ratio_error"] is None else f"1 ± {r['ratio_error']:.2f}"
    numbers = (f"{r[what]:.3g}" for what in ("mean", "reported", "spread"))
    return line(r["case"], r["quantity"], *numbers, f"{r['ratio']:.3f}", expected)


# ----------------------------------------------------------------------------------------------------------- diffusion
def _rho_and_depth(result: LightResult) -> tuple[Array, Array]:
    x, y, z = np.meshgrid(*[np.arange(n) + 0.5 for n in result.domain.shape], indexing="ij")
    return np.hypot(x - result.source.position_mm[0], y - result.source.position_mm[1]), z


def diffusion_table(results: Sequence[LightResult]) -> dict[str, Any]:
    """Fluence over diffusion theory by distance and depth; the error is that of the mean over the seeds."""
    rho, depth = _rho_and_depth(results[0])
    expected = fluence_semi_infinite(rho, depth, results[0].domain.media[0])
    ratios = np.array([result.fluence / expected for result in results])

    def mean_and_error(inside: Array) -> list[float]:
        by_seed = ratios[:, inside].mean(axis=1)
        return [float(by_seed.mean()), float(by_seed.std(ddof=1) / np.sqrt(len(by_seed)))]

    def between(values: Array, edges: Sequence[float], n: int) -> Array:
        return (values > edges[n]) & (values < edges[n + 1])

    return {
        "rho_mm": RHO_MM,
        "depth_mm": DEPTH_MM,
        "photons": sum(result.launched for result in results),
        "ratio_and_error": [
            [mean_and_error(between(rho, RHO_MM, r) & between(depth, DEPTH_MM, d)) for r in range(len(RHO_MM) - 1)]
            for d in range(len(DEPTH_MM) - 1)
        ],
        "region": {**NEAR, "ratio_and_error": mean_and_error(region(results[0]))},
    }


def region(result: LightResult) -> Array:
    """The voxels where diffusion theory is held against the simulation."""
    rho, depth = _rho_and_depth(result)
    (nearest, farthest), (top, bottom) = NEAR["rho_mm"], NEAR["depth_mm"]
    return (rho > nearest) & (rho < farthest) & (depth > top) & (depth < bottom)


def diffusion_lines(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    edges, depths = found["rho_mm"], found["depth_mm"]
    columns = ["depth \\ rho (mm)", *(f"{a:g} to {b:g}" for a, b in itertools.pairwise(edges))]
    lines = [
        line(f"{a:g} to {b:g}", *(f"{ratio:.3f} ± {error:.3f}" for ratio, error in cells))
        for (a, b), cells in zip(itertools.pairwise(depths), found["ratio_and_error"], strict=True)
    ]
    return columns, lines


# ------------------------------------------------------------------------------------------------------------- scaling
def scaling_rows(plan: Plan, counts: Sequence[int]) -> list[Row]:
    """cube60b with more and more photons: the error, and the brightest voxel, where a sum of floats would stall."""
    rows = []
    for seed, count in enumerate(counts, 1):  # a seed for each, so that they are independent
        result = call(with_settings(case("cube60b"), photons=count, seed=seed), plan.device)()
        inside = region(result)
        error = np.sqrt((result.fluence_error[inside].astype(np.float64) ** 2).mean())
        brightest = result.fluence[29, 29, 0], result.fluence_error[29, 29, 0]
        relative = float(error / result.fluence[inside].mean(dtype=np.float64))
        rows.append({"photons": count, "relative_error": relative, "brightest": [float(v) for v in brightest]})
    last = Estimate(*rows[-1]["brightest"])
    for r in rows:
        r["z"] = Estimate(*r["brightest"]).z_score(*last) if r is not rows[-1] else 0.0
    return rows


def scaling_exponent(rows: Sequence[Row]) -> float:
    """Slope of the error over the number of photons, both logarithmic; -0.5 is expected."""
    x, y = np.log([r["photons"] for r in rows]), np.log([r["relative_error"] for r in rows])
    return float(np.polyfit(x, y, 1)[0])


def scaling_line(r: Row) -> str:
    value, error = r["brightest"]
    return line(
        f"{r['photons']:,}", f"{100 * r['relative_error']:.4g} %", f"{r['relative_error'] * r['photons'] ** 0.5:.2f}",
        f"{value:.6f} ± {error:.6f}", f"{r['z']:+.2f}",
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- energy
def energy_rows(plan: Plan, photons: int) -> Iterator[Row]:
    """Where the energy goes, in every benchmark, and in B1 at higher thresholds of the roulette."""
    jobs = [(name, ROULETTE) for name in BENCHMARKS if name not in ("diffusion60", "head")]
    for name, threshold in [*jobs, *(("B1", threshold) for threshold in THRESHOLDS[1:])]:
        made = with_settings(case(name), photons=photons, roulette_threshold=threshold)
        try:
            result = call(made, plan.device)()
        except GpuBioError as error:
            yield {"case": name, "photons": photons, "threshold": threshold, "failed": str(error)}
            continue
        energy = result.energy
        parts = {part: list(getattr(energy, part)) for part in energy.__dataclass_fields__}
        imbalance, smallest = energy.total - 1.0, float(result.fluence.min())
        yield {
            "case": name, "photons": photons, "threshold": threshold, "parts": parts, "imbalance": imbalance,
            "smallest_voxel": smallest,
        }  # fmt: skip


def energy_line(r: Row) -> str:
    if "failed" in r:
        return line(r["case"], f"{r['threshold']:g}", f"**{r['failed']}**", *[""] * (len(ENERGY_COLUMNS) - 3))
    parts = [f"{value:.6f}" if value else "0" for value, _ in list(r["parts"].values())[:-1]]
    value, error = r["parts"]["roulette"]
    roulette, z = (f"{value:+.1e} ± {error:.1e}", f"{value / error:+.1f}") if error > 0 else ("0", "")
    return line(
        r["case"], f"{r['threshold']:g}", *parts, roulette, z, f"{r['imbalance']:+.1e}", f"{r['smallest_voxel']:.2g}"
    )


# ---------------------------------------------------------------------------------------------------------------- skin
def skin_rows(results: Sequence[LightResult]) -> Iterator[Row]:
    """Absorption of each layer of skin, and what escapes, beside the layered reference; per photon that entered."""
    reference = case("skin7").reference
    assert reference is not None
    for label in reference.by_label:
        found = _mean([result.absorbed[label] for result in results])
        layer = results[0].domain.medium(label).name
        yield _skin_row(layer, Estimate(reference.by_label[label], reference.by_label_error[label]), found)
    absorbed = _mean([result.energy.absorbed for result in results])
    yield _skin_row("all layers", Estimate(reference.absorbed, reference.error), absorbed)
    entered = 1.0 - SKIN_SPECULAR
    escaped = Estimate(*(part / entered for part in SKIN_ESCAPED))
    yield _skin_row("escaped", escaped, _mean([result.energy.escaped for result in results]))


def _mean(found: Sequence[Estimate]) -> Estimate:
    """Mean of independent estimates of the same number of photons."""
    values, errors = np.array(found).T
    return Estimate(float(values.mean()), float(np.sqrt((errors**2).sum()) / len(found)))


def _skin_row(layer: str, reference: Estimate, found: Estimate) -> Row:
    z = found.z_score(*reference)
    return {"layer": layer, "reference": list(reference), "ours": list(found), "z": z}


def skin_line(r: Row) -> str:
    (reference, its_error), (value, error) = r["reference"], r["ours"]
    return line(
        r["layer"], f"{reference:.7f}", f"{its_error:.1e}", f"{value:.7f}", f"{error:.1e}",
        f"{100 * (value / reference - 1):+.3f} %", f"{r['z']:+.2f}",
    )  # fmt: skip
