"""The flow between the two ends of bundles of a real brain (shared data)."""

from typing import Any, NamedTuple

import numpy as np
from common import ROOT, Array, Report, line, table

from fibers.flow_peers import Seconds, ends_in, over_totals, tckgen
from fibers.flow_phantom import auc
from napari_gpubio import diffusion
from napari_gpubio.diffusion import FixelField
from napari_gpubio.diffusion.regions import Region
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.fibers.flow import FlowSettings, flow
from napari_gpubio.fibers.flow.run import transport_problem

SHARED = ROOT.parent / "shared"
BRAIN = SHARED / "data" / "dwi" / "whole_brain_b1000"
OVERLAPS = 0.05  # of the smaller region: pairs that share no more are disjoint


class Brain(NamedTuple):
    """A scan of a brain, its mask, and what was made of it."""

    scan: Any
    mask: Array
    fods: Any
    fixels: FixelField


def load_brain() -> Brain:
    from napari_gpubio.diffusion.io.dwi import read_mask

    scan = diffusion.io.read_dwi(BRAIN / "dwi.nii.gz")
    mask = read_mask(BRAIN / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    response = diffusion.estimate_response(scan, mask, device="cpu")
    fods = diffusion.deconvolve(scan, response, mask, device="cpu")
    return Brain(scan, mask, fods, diffusion.find_peaks(fods, diffusion.PeakSettings(most=4), device="cpu"))


def end_regions() -> list[Region]:
    """Begin and end of each bundle, one behind the other."""
    import nibabel as nib

    names = sorted(path.name.removesuffix("_b.nii.gz") for path in (BRAIN / "endings").glob("*_b.nii.gz"))
    regions = []
    for name in (f"{bundle}_{end}" for bundle in names for end in "be"):
        image = nib.load(BRAIN / "endings" / f"{name}.nii.gz")
        regions.append(Region(name=name, voxels=np.asarray(image.dataobj) > 0, affine=image.affine))
    return regions


def brain(report: Report, device: str) -> None:
    """AUC of begin with own end against begin with another end, and seconds."""
    subject, regions = load_brain(), end_regions()
    fixels = subject.fixels
    problem, _ = transport_problem(fixels, regions, FlowSettings())
    begun = Seconds.now()
    flow(fixels, regions[:1], device=device)
    first, begun = begun.since(), Seconds.now()
    result = flow(fixels, regions, device=device)
    seconds = begun.since()
    masks = np.stack([region.voxels.ravel() for region in regions]).astype(np.float32)
    shared, sizes = masks @ masks.T, masks.sum(axis=1)
    share = shared / np.minimum.outer(sizes, sizes)
    begins, ends, mixed = share[::2, ::2], share[1::2, 1::2], share[::2, 1::2]
    other = ~np.eye(len(begins), dtype=bool)
    disjoint = other & (np.maximum.reduce([begins, ends, mixed, mixed.T]) < OVERLAPS)
    scores = {of: (result.matrix(of), seconds) for of in ("overlap", "arrivals", "plain_overlap")}
    white = subject.mask & (fa_map(diffusion.fit_tensors(subject.scan, subject.mask, device=device)) > 0.2)
    for made in tckgen(subject.fods, white, subject.mask):
        counts = ends_in(made.fibers, regions)
        scores[f"MRtrix iFOD2, {made.seeds:,} seeds, over totals"] = over_totals(counts), made.seconds
        scores[f"MRtrix iFOD2, {made.seeds:,} seeds"] = counts, made.seconds
    found, rows = [], []
    for of, (whole, spent) in scores.items():
        matrix = whole[::2, 1::2]
        true = np.diag(matrix)
        within = [(true[n], row[disjoint[n]]) for n, row in enumerate(matrix)]
        ranks = np.array([1 + (others >= own).sum() for own, others in within])
        numbers = {
            "auc": auc(true, matrix[other]), "auc_disjoint": auc(true, matrix[disjoint]),
            "auc_in_row": float(np.mean([auc(np.array([own]), others) for own, others in within])),
            "median_rank": float(np.median(ranks)), "first": float((ranks == 1).mean()),
            "first_three": float((ranks <= 3).mean()), "true_pairs_at_0": int((true == 0).sum()),
            "wall_s": spent.wall, "busy_s": spent.busy,
        }  # fmt: skip
        found.append({"of": of, **numbers})
        rows.append(line(of, *(f"{value:.3g}" for value in numbers.values())))
    columns = [
        "matrix",
        "AUC",
        "disjoint",
        "within rows",
        "median rank",
        "first",
        "first three",
        "true pairs at 0",
        "wall, s",
        "processors, s",
    ]
    facts = (
        f"{problem.nodes.count:,} nodes, {len(result.visited):,} visits. The first region, with the transport matrix "
        f"and compilation if there is some: {first.wall:.2f} s ({first.busy:.2f} s of processors). All {len(regions)}: "
        f"{seconds.wall:.2f} s ({seconds.busy:.2f} s of processors)."
    )
    times = {"first_s": first.wall, "all_s": seconds.wall, "all_cpu_s": seconds.busy, "nodes": problem.nodes.count}
    report.add("brain", f"{len(regions) // 2} bundles of a brain", [*found, times], *table(columns, rows), "", facts)
