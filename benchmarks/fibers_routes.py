"""How often a region is reached from another one: classic streamlines, fans of geodesics, the two-point solver.

For each bundle of the real brain: the share of seeds (every voxel of the one end region) of which a fiber reaches the
other end region, the share of those whose best fiber runs in the bundle, and how well scores tell arrivals inside the
bundle from those outside (area under the ROC curve)::

    python benchmarks/fibers_routes.py
"""

import argparse
import dataclasses
import math
from pathlib import Path

import numpy as np
from common import Report, header, line, result_path, table, written
from fibers.brain import load_brain
from fibers_reach import BASE, IN_BUNDLE, START, Bundle, Cell, load_bundle, per_fiber_share
from scipy.stats import rankdata

from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import Region
from napari_gpubio.fibers.directions import Directions, Principal
from napari_gpubio.fibers.routes import ConnectSettings, LeaveOut, Routes
from napari_gpubio.fibers.settings import EuDX, InTensors, as_method

# The score was chosen on the five of START; these were not looked at.
HELD_OUT = {"CST_right": "e", "CC_1": "b", "CC_6": "b", "AF_right": "b", "CG_right": "e", "IFO_left": "b",
            "ILF_left": "b", "UF_left": "b", "SLF_III_left": "b", "ATR_left": "b"}  # fmt: skip
SCORES = ("score", "alignment_fa", "alignment", "mean_fa", "speed", "eudx_distance_mm", "length_mm")
LESS_IS_BETTER = ("eudx_distance_mm", "length_mm")
ALONE = Principal()
ROWS: dict[str, tuple[Directions | None, ConnectSettings, InTensors]] = {
    "EuDX": (ALONE, ConnectSettings(), dataclasses.replace(as_method(EuDX, BASE), integrator="euler")),
    "EuDX, DIPY's rule": (
        ALONE,
        ConnectSettings(),
        dataclasses.replace(as_method(EuDX, BASE), integrator="euler", corner_angle_deg=60.0, corner_weight=0.5),
    ),
    "D^-1 along v1": (ALONE, ConnectSettings(near_misses=LeaveOut()), BASE),
    "D^-1, fan": (None, ConnectSettings(near_misses=LeaveOut()), BASE),
    "D^-1, fan and two-point solver": (None, ConnectSettings(), BASE),
}


def regions_of(bundle: Bundle, field: TensorField) -> tuple[Region, Region]:
    voxels = np.zeros(field.shape, bool)
    voxels[tuple(bundle.starts.T)] = True
    return tuple(Region(name=n, voxels=v, affine=field.affine) for n, v in (("start", voxels), ("end", bundle.target)))


def area(values: np.ndarray, good: np.ndarray) -> float:
    """Area under the ROC curve by ranks; NaN unless there are both kinds."""
    ranks, count = rankdata(values), int(good.sum())
    if count in (0, len(good)):
        return math.nan
    return float((ranks[good].sum() - count * (count + 1) / 2) / (count * (len(good) - count)))


def cell_of(routes: Routes, bundle: Bundle, seconds: float) -> Cell:
    fibers = routes.tractogram
    good = per_fiber_share(fibers, bundle.near) >= IN_BUNDLE if len(fibers) else np.zeros(0, bool)
    order = np.argsort(-fibers.per_fiber["score"], kind="stable")
    _, first = np.unique(fibers.per_fiber["seed"][order], return_index=True)
    best = order[first]
    signs = {name: -1 if name in LESS_IS_BETTER else 1 for name in SCORES}
    return {
        "reach_percent": 100 * len(best) / routes.search.seeds,
        "in_bundle_percent": 100 * float(good[best].mean()) if len(best) else math.nan,
        "arrivals": len(fibers),
        "near_misses": routes.search.near_misses,
        "solved": int(fibers.per_fiber["solved"].sum()),
        "seconds": seconds,
    } | {f"auc_{name}": area(signs[name] * fibers.per_fiber[name], good) for name in SCORES}


def measured(label: str, field: TensorField, bundle: Bundle, device: str) -> Cell:
    directions, settings, tracking = ROWS[label]
    clock = RunClock()
    routes = fiber_tracking.connect(field, *regions_of(bundle, field), settings, directions, tracking, device=device)
    return cell_of(routes, bundle, clock.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    arguments = parser.parse_args()
    brain = load_brain(None)
    if isinstance(brain, str):
        raise SystemExit(brain)
    field = brain.field
    facts = header(False) | {"device": choose_device(arguments.device).describe(), "start": START | HELD_OUT}
    path = result_path(arguments.json, "fibers_routes", facts["date"])
    report = Report(path, "Routes between the ends of bundles", facts, __doc__ or "")
    bundles = {name: load_bundle(name, field, start) for name, start in START.items()}
    rows = {label: [measured(label, field, b, arguments.device) for b in bundles.values()] for label in ROWS}
    lines = [line(label, *(text(cell) for cell in cells)) for label, cells in rows.items()]
    title = "Reach of seeds, % / best fiber in the bundle, % (fibers; solved of near misses; seconds)"
    report.add("reach", title, rows, *table(["", *bundles], lines))
    label = list(ROWS)[-1]
    others = {name: measured(label, field, load_bundle(name, field, start), arguments.device)
              for name, start in HELD_OUT.items()}  # fmt: skip
    sets = {"five bundles": rows[label], "ten held out": list(others.values())}
    means = {kind: {name: float(np.nanmean([cell[f"auc_{name}"] for cell in cells])) for name in SCORES}
             for kind, cells in sets.items()}  # fmt: skip
    lines = [line(name, *(f"{means[kind][name]:.3f}" for kind in sets)) for name in SCORES]
    report.add("auc", "Mean area under the ROC curve", means | {"held_out": others}, *table(["", *sets], lines))
    print(written(path))


def text(cell: Cell) -> str:
    return (
        f"{cell['reach_percent']:.1f} / {cell['in_bundle_percent']:.0f} ({cell['arrivals']:,}; "
        f"{cell['solved']:,} of {cell['near_misses']:,}; {cell['seconds']:.1f})"
    )


if __name__ == "__main__":
    main()
