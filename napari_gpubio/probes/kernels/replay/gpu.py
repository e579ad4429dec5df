"""Photons of a list traced again in CUDA, the counterpart of ``cpu.py``; the kernels are in ``voxels.cu``."""

from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, processor_count, to_host
from napari_gpubio.core.kernels import POINTER, is_pointer, kernel, struct, struct_layout
from napari_gpubio.light.kernels.voxels import gpu as voxels
from napari_gpubio.light.kernels.voxels.problem import DETECTED_NUMBERS, ENERGY_PARTS, VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import DetectedList
from napari_gpubio.probes.kernels.replay.fold import SUMS
from napari_gpubio.probes.kernels.replay.measurements import GROUPS
from napari_gpubio.probes.kernels.replay.problem import DetectorPart, ReplayProblem, Span
from napari_gpubio.probes.kernels.replay.trails import VERTEX_NUMBERS, TrailProblem

_TRACE = Path(voxels.__file__).with_name("voxels.cu")
_FOLD = Path(__file__).with_name("fold.cu")
_THREADS, _BLOCKS_PER_PROCESSOR = 128, 8  # as for the photons of a run

# The structs of the kernels' parameters, as in record.cuh and fold.cu.
SCORES = struct_layout(
    {"factors": POINTER, "slots": POINTER}
    | dict.fromkeys(("measures", "by_mua", "by_mus", "cells"), np.int32)
    | {"tally": POINTER}
)
TRAILS = struct_layout(
    {"counts": POINTER, "room": np.int32, "crossings": np.int32, "kinds": POINTER, "numbers": POINTER}
)
FOLD = struct_layout(
    {"tally": POINTER}
    | dict.fromkeys(("groups", "volumes", "cells"), np.int32)
    | dict.fromkeys(("units", "shares", "sums", "rows"), POINTER)
    | {"media_rows": np.int32, "labels": POINTER}
)
FINISH = struct_layout(
    {"sums": POINTER, "volumes": np.int32, "cells": np.int32, "partners": POINTER, "products": POINTER}
    | {"freedom": np.float64, "values": POINTER, "errors": POINTER}
)


class Tracer:
    """The grid of a simulation on one GPU, and launches that trace photons of a list through it."""

    def __init__(self, problem: VoxelProblem, device: Device) -> None:
        import cupy

        voxels.check_indices(problem)
        self._problem = problem
        self._processors = processor_count(device)
        self.inputs = {name: cupy.asarray(array) for name, array in voxels.inputs_of(problem).items()}
        self._scene = struct(voxels.SCENE, **self.inputs, **voxels.numbers_of(problem))
        self._scratch = cupy.zeros(problem.cells, np.uint64)  # for the energy, which goes nowhere
        self._energy = cupy.zeros(ENERGY_PARTS, np.uint64)

    def room(self, count: int) -> dict[str, Any]:
        """Device arrays for so many photons; slices of them do for fewer."""
        import cupy

        p, capacity = self._problem, count if self._problem.detectors else 0
        return {
            "counters": cupy.zeros(2, np.uint32),  # photons taken, photons detected
            "photons": cupy.empty(max(1, capacity), np.uint64),
            "numbers": cupy.empty((max(1, capacity), DETECTED_NUMBERS + p.media_rows), np.float32),
            "paths": cupy.empty(max(1, self._blocks(count) * _THREADS * p.media_rows if capacity else 0), np.float32),
        }

    def trace(self, items: Any, room: dict[str, Any], define: str, record: np.void) -> DetectedList:
        """Trace photons of a device array of indices; returns those that are detected."""
        p, count = self._problem, len(items)
        room["counters"].fill(0)
        launched = _filled(
            voxels.PHOTONS, count=count, counter=room["counters"], rest=2**32 - 1, batch_size=2**32 - 1,
            paths=room["paths"], items=items,
        )  # fmt: skip
        tallies = _filled(
            voxels.TALLIES, path=self._scratch, copies=1, scale=p.scale, energy=self._energy,
            energy_scale=p.energy_scale, capacity=count if p.detectors else 0, detected=room["counters"][1:],
            photons=room["photons"], numbers=room["numbers"],
        )  # fmt: skip
        defines = (*voxels.defines_of(p), f"RECORD={define}")
        launch = kernel(_TRACE, "trace_photons", defines=defines, fast=True)
        launch((self._blocks(count),), (_THREADS,), (self._scene, launched, tallies, record))
        found = int(to_host(room["counters"])[1]) if p.detectors else 0
        return DetectedList(to_host(room["photons"][:found]), to_host(room["numbers"][:found]))

    def _blocks(self, count: int) -> int:
        return max(1, min(self._processors * _BLOCKS_PER_PROCESSOR, -(-count // _THREADS)))


class Run(drivers.Run):
    """Derivatives of one problem on one GPU; items are lines of the list of photons."""

    def __init__(self, problem: ReplayProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        p = problem
        with device.current():
            self._tracer = Tracer(p.voxels, device)
            self._tally = cupy.zeros(p.slots * p.tally_size, np.uint64)
            self._sums = cupy.zeros(SUMS * p.tally_size, np.float64)
            self._labels = cupy.zeros((GROUPS, p.volumes, p.voxels.media_rows), np.uint64)
            self._values, self._errors = (cupy.empty(p.tally_size, np.float32) for _ in range(2))

    def advance(self, start: int, count: int) -> None:
        """Trace the photons of the lines ``start`` to ``start + count - 1``, all of one detector."""
        import cupy

        p, tracer = self._problem, self._tracer
        with self.device.current():
            # all that is allocated, before anything is added up
            lines, spans = slice(start, start + count), list(p.spans(start, count))
            items, factors = cupy.asarray(p.arrivals.photon[lines]), cupy.asarray(p.factors[lines])
            first = np.repeat([span.first_group for span in spans], [span.stop - span.start for span in spans])
            slots = cupy.asarray((p.arrivals.group[lines] - first).astype(np.uint32))
            room, numbers = tracer.room(count), self._numbers_of(spans[0].detector)
            for span in spans:
                part = slice(span.start - start, span.stop - start)
                record = struct(
                    SCORES, factors=factors[part], slots=slots[part], measures=len(p.measurements), by_mua=p.by_mua,
                    by_mus=p.by_mus, cells=p.voxels.cells, tally=self._tally,
                )  # fmt: skip
                p.check_arrivals(span, tracer.trace(items[part], room, "SCORES", record))
                if p.is_last(span):
                    self._fold(span, numbers)
                if span.stop == p.arrivals.of(span.detector).stop:
                    self._finished.append((span.detector, self._finish(span.detector, numbers)))

    def _numbers_of(self, detector: int) -> dict[str, Any]:
        """What the sums of a detector are folded and finished with, on the device."""
        import cupy

        p = self._problem
        return {
            "units": cupy.asarray(p.units(detector)),
            "shares": cupy.asarray(np.ascontiguousarray(p.shares(detector).transpose(2, 0, 1))),
            "partners": cupy.asarray(p.partners),
            "products": cupy.asarray(p.products(detector)),
        }

    def _fold(self, span: Span, numbers: dict[str, Any]) -> None:
        p = self._problem
        groups = slice(span.first_group, span.first_group + span.groups)
        fold = struct(
            FOLD, tally=self._tally, groups=span.groups, volumes=p.volumes, cells=p.voxels.cells,
            units=numbers["units"], shares=numbers["shares"][groups], sums=self._sums,
            rows=self._tracer.inputs["rows"], media_rows=p.voxels.media_rows, labels=self._labels[groups],
        )  # fmt: skip
        self._over_cells("fold_groups", fold)

    def _finish(self, detector: int, numbers: dict[str, Any]) -> DetectorPart:
        p = self._problem
        finish = struct(
            FINISH, sums=self._sums, volumes=p.volumes, cells=p.voxels.cells, partners=numbers["partners"],
            products=numbers["products"],
            freedom=GROUPS / (GROUPS - 1.0), values=self._values, errors=self._errors,
        )  # fmt: skip
        self._over_cells("finish_cells", finish)
        labels = to_host(self._labels).astype(np.int64) * p.units(detector)[:, None]
        values, errors = p.cropped(to_host(self._values)), p.cropped(to_host(self._errors))
        self._sums.fill(0)
        self._labels.fill(0)
        return DetectorPart(values, errors, labels)

    def _over_cells(self, name: str, parameters: np.void) -> None:
        """Launch a kernel with a thread for each cell, and wait for it: what it reads is let go then."""
        import cupy

        p = self._problem.voxels
        label = "unsigned char" if p.rows.itemsize == 1 else "unsigned short"
        launch = kernel(_FOLD, name, defines=(f"LABEL={label}",), strict=True)
        launch((-(-p.cells // _THREADS),), (_THREADS,), (parameters,))
        cupy.cuda.get_current_stream().synchronize()


class TrailRun(drivers.Run):
    """Trajectories of one problem on one GPU; items are lines of the list of photons."""

    def __init__(self, problem: TrailProblem, *, device: Device) -> None:
        super().__init__(problem, device=device)
        with device.current():
            self._tracer = Tracer(problem.voxels, device)

    def advance(self, start: int, count: int) -> None:
        """Trace the photons of the lines ``start`` to ``start + count - 1``."""
        import cupy

        p, tracer = self._problem, self._tracer
        with self.device.current():
            counts = cupy.zeros(count, np.int64)
            kinds = cupy.zeros((count, p.room), np.uint8)
            numbers = cupy.zeros((count, p.room, VERTEX_NUMBERS), np.float32)
            record = struct(TRAILS, counts=counts, room=p.room, crossings=p.crossings, kinds=kinds, numbers=numbers)
            items = cupy.asarray(p.chosen[start : start + count])
            found = tracer.trace(items, tracer.room(count), "TRAILS", record)
            packed = p.packed(start, to_host(counts), to_host(kinds), to_host(numbers), found)
        self._finished.append((start, packed))


def _filled(layout: np.dtype[Any], **values: Any) -> np.void:
    """Fill a struct; what is not given is zero, or null."""
    kinds = {name: field[0] for name, field in (layout.fields or {}).items()}
    whole: dict[str, Any] = {name: None if is_pointer(kind) else 0 for name, kind in kinds.items()}
    return struct(layout, **whole | values)
