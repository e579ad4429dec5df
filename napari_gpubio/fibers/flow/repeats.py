"""How sure the flow between regions is: it is moved again along FODs that are drawn from the residuals of a fit."""

import threading
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, voxels_on
from napari_gpubio.diffusion.tensors.run import check_same_grid
from napari_gpubio.fibers.flow.model import Flow, FlowMatrices
from napari_gpubio.fibers.flow.repeats_model import FlowRepeats
from napari_gpubio.fibers.flow.run import flow, flow_steps
from napari_gpubio.fibers.flow.settings import FlowSettings
from napari_gpubio.fibers.uncertainty.fod_repeats import drawn_notes, fod_repeats_steps
from napari_gpubio.fibers.uncertainty.repeats import in_order

HONEST = (
    "Ranks compare the targets of one source; no number tells by itself that a pair is joined, nor compares sources.",
    "Repeats vary with noise alone: bundles that touch look like bundles that cross, in every one of them.",
    "Noise ends mass that no repeat brings back, so intervals of numbers are too narrow in noise; ranks are surer.",
    "Fibers end inside gray matter, so numbers depend on the rim of the regions, which is the same in all repeats.",
)
"""What the intervals do not tell, as sentences."""


def flow_repeats_steps(  # noqa: PLR0913 - what a user may know of a run
    scan: DiffusionScan,
    fods: FodField,
    regions: Atlas | Sequence[AnyRegion],
    settings: FlowSettings | None = None,
    *,
    repeats: int = 50,
    random_seed: int = 0,
    include: Sequence[AnyRegion] = (),
    exclude: Sequence[AnyRegion] = (),
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, FlowRepeats]:
    """Tell how sure the flow between regions is, step by step; previews are the repeats so far.

    Each repeat draws the signals of all voxels anew, as `napari_gpubio.fibers.uncertainty` does (residual bootstrap of
    FODs), deconvolves them, takes their peaks, and moves the mass of all regions.

    Parameters
    ----------
    scan
        The diffusion-weighted series.
    fods
        What `napari_gpubio.diffusion.deconvolve` made of it with the response of a single fiber.
    regions, settings, include, exclude
        As of `flow_steps`.
    repeats
        How many; each takes about as long as deconvolution and flow.
    random_seed
        Of the draws; a repeat depends on it and on its number only.
    device
        See `napari_gpubio.core.device.choose_device`; several GPUs take turns.
    stop
        Set it to stop early; the result then holds the repeats that were done.

    Returns
    -------
    FlowRepeats
        Intervals of the numbers and ranks, and how often a region is among the first.

    Raises
    ------
    InvalidInput
        As `flow_steps`, or if the FODs are of another scan, of several tissues, or of a file that does not tell how
        they were made, or the shell has fewer than 19 directions.

    Examples
    --------
    >>> from napari_gpubio import diffusion, fibers
    >>> from napari_gpubio.diffusion.regions import Sphere
    >>> scan = diffusion.phantom.load_brain_phantom()
    >>> fods = diffusion.deconvolve(scan, device="cpu")
    >>> places = {"left": (-12, -5, 20), "right": (12, -5, 20), "front": (0, 30, 10)}
    >>> regions = [Sphere(name=name, center_mm=place, radius_mm=5) for name, place in places.items()]
    >>> found = fibers.flow.flow_repeats(scan, fods, regions, repeats=3, device="cpu")
    >>> found.ranked(1)[0].name
    'right'
    """
    if repeats < 1:
        raise InvalidInput(f"repeats is {repeats}; give at least 1")
    settings, chosen, clock = settings or FlowSettings(), choose_device(device), RunClock()
    check_same_grid(fods, scan.shape, scan.affine, "the scan")
    notes = [f"{note[0].upper()}{note[1:]}." for note in drawn_notes(scan, fods)]
    gates: dict[str, Any] = {"include": include, "exclude": exclude, "stop": stop}
    fit = yield from flow_steps(fods, regions, settings, **gates, device=chosen)
    box = slice(0, scan.shape[0]), slice(0, scan.shape[1]), slice(0, scan.shape[2])
    draws = yield from fod_repeats_steps(scan, fods, box, random_seed, chosen, stop)
    found = list[FlowMatrices]()
    left_out = 0

    def moved(number: int) -> Flow | InvalidInput | None:
        """The flow of a repeat, or why there is none; None if it was stopped on the way."""
        field = draws.field(number)
        if field is None:
            return None
        try:
            made = flow(field, regions, settings, **gates, device=draws.device_of(number))
        except InvalidInput as error:  # noise left a region or a gate without fixels
            return error
        return made if made.complete else None

    def result(*, complete: bool) -> FlowRepeats:
        lost = f"{left_out:,} repeats, in which noise leaves a region without fixels, do not count."
        every_note = (*fit.notes, *notes, *([lost] if left_out else []), *HONEST)
        kept = {name: fit.parameters[name] for name in ("flow", "include", "exclude") if name in fit.parameters}
        kept |= {name: fods.parameters[name] for name in ("deconvolution", "responses")}
        made = how_made(chosen, clock.seconds, **kept, bootstrap={"repeats": repeats, "random_seed": random_seed})
        shape = -1, len(fit), len(fit)
        return FlowRepeats(
            labels=fit.labels,
            names=fit.names,
            voxels=fit.voxels,
            fit=fit.matrices,
            overlaps=np.array([one.overlaps for one in found], np.float32).reshape(shape),
            arrived=np.array([one.arrived for one in found], np.float32).reshape(shape),
            complete=complete,
            notes=every_note,
            parameters=made,
        )

    for done, one in enumerate(in_order(moved, repeats, len(chosen.each), stop), 1):
        if one is None:
            break
        if isinstance(one, InvalidInput):
            left_out += 1
        else:
            found.append(one.matrices)
        yield Step(done, repeats, "bootstrap", make_preview=lambda: result(complete=False))
    return result(complete=fit.complete and len(found) + left_out == repeats)


flow_repeats = driven(flow_repeats_steps)


def with_source(atlas: Atlas, source: AnyRegion) -> tuple[Atlas, int]:
    """Return an atlas with a source as a label of its own, and that label; those that it lies in are left out.

    InvalidInput if no center of the atlas's voxels lies in the source.
    """
    inside = voxels_on(source, atlas.labels.shape, atlas.affine)
    if not inside.any():
        raise InvalidInput(f"the source {source.name!r} holds no voxel of the atlas; move it, or widen it")
    label = max(atlas.voxel_counts, default=0) + 1
    labels = np.where(np.isin(atlas.labels, np.unique(atlas.labels[inside])), 0, atlas.labels).astype(np.int64)
    labels[inside] = label
    return replace(atlas, labels=labels, names={**atlas.names, label: source.name}), label
