"""What is counted, where, for how long, and what is to be reached."""

from functools import cache

import numpy as np
from common import Array

from napari_gpubio.dose.kernels.histogram.problem import Problem
from napari_gpubio.dose.kernels.histogram.slices import find_segments
from napari_gpubio.dose.kernels.histogram.work import ContourWork
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.samples import treatment_dose, treatment_structures
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures

PATENT = "patent 436.56 ms (Celeron E3300)"
TARGETS = {  # seconds
    ("cpu", "contours to curves"): 50e-3,
    ("cuda", "new dose"): 1e-3,
    ("cuda", "counting"): 0.2e-3,
    ("cuda", "big, resident"): 1e-3,
    ("cuda", "big, pinned"): 30e-3,
    ("cpu", "painting"): 50e-3,
    ("cuda", "painting"): 50e-3,
}
PATENT_SPACING_MM = 2.83  # of our samples in slabs of 3 mm (two slices each): as many as 2 x 2 mm in every contour
BIG_SHAPE, ORGANS = (512, 512, 400), 30
SMALL_BIG_SHAPE = (128, 128, 100)  # of a quick run


def target_text(kind: str, what: str) -> str:
    """``"target 1 ms"``, or nothing."""
    seconds = TARGETS.get((kind, what))
    return "" if seconds is None else f"target {1e3 * seconds:g} ms"


@cache
def seed_case() -> tuple[Dose, tuple[ContourStructure, ...]]:
    """The patent's four organs of 262 contours and a dose of 116 x 60 x 84 voxels of 4 mm, by formula."""
    return treatment_dose(), treatment_structures()[:4]


def loops_of(structure: ContourStructure) -> list[Array]:
    """World points of all its contours, as a file has them."""
    turn, shift = structure.frame[:3, :3].T, structure.frame[:3, 3]
    flat = (
        np.column_stack([loop, np.full(len(loop), plane.position_mm)])
        for plane in structure.planes
        for loop in plane.loops
    )
    return [points @ turn + shift for points in flat]


def samples_of(problem: Problem) -> int:
    """Samples that are taken in contours."""
    total = 0
    for work in problem.works:
        if isinstance(work, ContourWork):
            segments = find_segments(work.slices)
            of_row = work.slices.table["spacing"][work.owner]
            spacing = np.repeat(of_row, np.diff(segments.starts) // 2)
            lengths = segments.x[1::2] - segments.x[0::2]
            total += int(np.maximum(np.ceil(lengths / spacing), 1).sum())
    return total


@cache
def big_case(shape: tuple[int, int, int]) -> tuple[Dose, LabelStructures]:
    """Labels of 30 organs, 1 mm, and a dose of 1 mm that lies half a voxel beside them; about a third is inside."""
    rng = np.random.default_rng(0)
    labels = np.zeros(shape, np.uint8)
    scale = shape[0] / 512
    for organ in range(1, ORGANS + 1):
        center = rng.uniform(0.15, 0.85, 3) * shape
        radii = rng.uniform(25, 85, 3) * scale
        low = np.maximum(np.floor(center - radii), 0).astype(int)
        high = np.minimum(np.ceil(center + radii) + 1, shape).astype(int)
        axes = (((np.arange(a, b) - c) / r) ** 2 for a, b, c, r in zip(low, high, center, radii, strict=True))
        x, y, z = np.meshgrid(*axes, indexing="ij", sparse=True)
        part = labels[low[0] : high[0], low[1] : high[1], low[2] : high[2]]
        part[x + y + z <= 1] = organ
    return _smooth_dose(shape, 0.5), LabelStructures(labels=labels, affine=np.eye(4))


def _smooth_dose(shape: tuple[int, int, int], offset: float) -> Dose:
    affine = np.eye(4)
    affine[:3, 3] = offset
    x, y, z = (np.linspace(-1, 1, n, dtype=np.float32) for n in shape)
    across = np.exp(-2 * x[:, None, None] ** 2 - 1.5 * y[:, None] ** 2)
    return Dose(values=60 * across * (1 - 0.3 * z) + np.float32(0.5), affine=affine, unit="Gy", name="smooth")


def with_values(dose: Dose, kind: str) -> Dose:
    """The seed case's dose, or another one on its grid: one value, all values alike often, or random ones."""
    shape = dose.values.shape
    values = {
        "near-degenerate": lambda: dose.values,
        "one value": lambda: np.full(shape, 50.0, np.float32),
        "spread": lambda: 100 * np.random.default_rng(0).random(shape, np.float32),
        "linear": lambda: np.linspace(0, 100, shape[0], dtype=np.float32)[:, None, None] + np.zeros(shape, np.float32),
    }[kind]()
    return Dose(values=values, affine=dose.affine, unit=dose.unit, name=kind)


DOSES = ("near-degenerate", "one value", "linear", "spread")
