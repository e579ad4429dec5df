"""The work of a forward model at one wavelength: the simulation of each optode, and the products of all pairs."""

import functools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.chunks import within_memory
from napari_gpubio.core.device import Device, free_gpu_pool, free_memory_bytes
from napari_gpubio.core.drivers import Runs, backend
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import fingerprint
from napari_gpubio.core.keeping import Inputs, inputs_of
from napari_gpubio.core.numbers import memory_text, position_text
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.light.reciprocity import Shell, shells_around
from napari_gpubio.light.run import check_source
from napari_gpubio.optics.batches import joined
from napari_gpubio.optics.model import OUTSIDE, Domain, Medium
from napari_gpubio.optics.sources import Source, Vector
from napari_gpubio.optics.surface import above_surface, label_at
from napari_gpubio.probes.forward.model import Head
from napari_gpubio.probes.forward.place import Placement
from napari_gpubio.probes.forward.products import Products, wavelength_model
from napari_gpubio.probes.forward.result import WavelengthModel
from napari_gpubio.probes.forward.settings import ForwardSettings, Optode
from napari_gpubio.probes.kernels.pairs.problem import OptodeProblem
from napari_gpubio.probes.kernels.pairs.store import FluenceStore, TissueVoxels

Array = npt.NDArray[Any]
_POLL_SECONDS = 0.1
_INWARD_MM = 1e-6
_NOTE_SECONDS = 1.0  # between notes of how far an optode is, for a file


class Begun(NamedTuple):
    """What is done of an optode that is not whole: photons, and the tally of those of the last group, if it is open."""

    photons: int
    path: Array | None


_NOTHING = Begun(0, None)


@dataclass(eq=False)
class State(ShortRepr):
    """What is done: whole wavelengths, and the fluence of the optodes of the one that is not whole."""

    inputs: Mapping[str, Any]  # what the model is made of, see `napari_gpubio.core.keeping`
    parts: dict[float, WavelengthModel] = field(default_factory=dict)
    store: FluenceStore | None = None
    shells: dict[int, tuple[Shell, ...]] = field(default_factory=dict)  # of optodes, at that wavelength
    begun: dict[int, Begun] = field(default_factory=dict)
    read: dict[int, Array] = field(default_factory=dict)  # whole groups of optodes, of a file, before a store is open
    seconds: float = 0.0

    @property
    def open_store(self) -> FluenceStore:
        """The store of the wavelength that is worked on."""
        if self.store is None:
            raise RuntimeError("no store is open")
        return self.store

    def close_store(self) -> None:
        """Let the fluence of a wavelength go."""
        if self.store is not None:
            self.store.close()
        self.store = None
        self.shells.clear()
        self.begun.clear()

    def to_arrays(self, group_size: int) -> dict[str, Array]:
        """How many wavelengths are whole, and what is done at the next one, as named arrays, for a file."""
        found: dict[str, Array] = {"whole": np.array(len(self.parts))}
        begun = dict(self.begun)  # before what is done, since threads go on with both
        if (store := self.store) is not None:
            done = set(store.done)
            groups = dict.fromkeys(done, store.values.shape[1])
            groups |= {optode: one.photons // group_size for optode, one in begun.items() if optode not in done}
            with store.here():
                found |= {f"fluence_{optode}": store.host(store.values[optode, :n]) for optode, n in groups.items()}
            for optode in groups.keys() - done:
                found[f"photons_{optode}"] = np.array(begun[optode].photons)
                if (path := begun[optode].path) is not None:
                    found[f"path_{optode}"] = path
        return found

    @classmethod
    def from_arrays(cls, inputs: Any, parts: Sequence[WavelengthModel], arrays: Mapping[str, Array]) -> "State":
        """Undo `to_arrays`; what does not fit its run is found by `Work.simulate`."""

        def by_optode(kind: str) -> dict[int, Array]:
            return {int(name.removeprefix(kind)): array for name, array in arrays.items() if name.startswith(kind)}

        fluence, paths = by_optode("fluence_"), by_optode("path_")
        begun = {optode: Begun(int(photons), paths.get(optode)) for optode, photons in by_optode("photons_").items()}
        read = {optode: fluence[optode] for optode in fluence | begun}
        return cls(inputs, {part.wavelength_nm: part for part in parts}, begun=begun, read=read)


@dataclass(frozen=True, eq=False, kw_only=True)
class Work(ShortRepr):
    """What is done for each wavelength."""

    head: Head
    domain: Domain  # at the first wavelength
    placement: Placement
    settings: ForwardSettings
    device: Device
    stop: threading.Event | None
    voxels: TissueVoxels
    wanted: tuple[int, ...]  # labels of the columns
    mask: Array | None

    @property
    def photons(self) -> int:
        """Photons of an optode."""
        return self.settings.groups * self.settings.group_size(self.device.kind)

    @functools.cached_property
    def optodes(self) -> tuple[int, ...]:
        """Optodes that are in a pair, sources first."""
        probe = self.placement.probe
        sources = {pair.source for pair in probe.all_pairs}
        detectors = {len(probe.sources) + pair.detector for pair in probe.all_pairs}
        return *sorted(sources), *sorted(detectors)

    def inputs(self, wavelengths: Sequence[float], domains: Sequence[Domain]) -> Inputs:
        """All that a model depends on."""
        head, probe, first = self.head, self.placement.probe, domains[0]
        places = probe.positions_mm, self.placement.directions, probe.all_pairs
        return {
            "labels": (str(head.path or ""), fingerprint(first.labels, first.affine)),
            **{
                f"label {medium.label} at {nm:g} nm": (_optics(medium), repr(medium))
                for nm, domain in zip(wavelengths, domains, strict=True)
                for medium in domain.media
            },
            "probe": (str(probe.path or ""), fingerprint(*places)),
            "columns": (f"labels {', '.join(map(str, self.wanted))}", fingerprint(self.wanted, self.mask)),
            **inputs_of(self.settings),
            **inputs_of(tuple(wavelengths), "wavelengths"),
            **inputs_of(self.photons, "number of photons"),
            **inputs_of(head.outside_n, "index outside"),
            **inputs_of(self.device.kind, "kind of device"),
        }

    def source(self, domain: Domain, optode: int) -> Source:
        """The source that stands for an optode."""
        point, direction = self.placement.probe.positions_mm[optode], self.placement.directions[optode]
        kind = self.kind(optode)
        start = above_surface(domain.affine, point, direction)
        if kind.touches:
            start = inside_at(domain, point, direction)
        return kind.source(_vector(start), _vector(direction))

    def kind(self, optode: int) -> Optode:
        """What an optode is."""
        is_source = optode < len(self.placement.probe.sources)
        return self.settings.sources if is_source else self.settings.detectors

    # -- photons ------------------------------------------------------------------------------------------------------

    def simulate(self, domain: Domain, state: State) -> Iterator[int]:
        """Simulate the optodes that are not done; yields photons done at this wavelength."""
        first = self._problem(domain, self.optodes[0], None)
        if state.store is None:
            state.store = self._new_store(first)
            self._put_what_was_read(state, first.tally_size)
        waiting = [optode for optode in self.optodes if optode not in state.store.done]
        ready = self.photons * (len(self.optodes) - len(waiting))
        photons = {optode: state.begun.get(optode, _NOTHING).photons for optode in waiting}
        halt = threading.Event()
        busy: dict[Future[None], Device] = {}
        with ThreadPoolExecutor(len(self.device.each) + 1, thread_name_prefix="napari-gpubio") as pool:
            shells = pool.submit(self._find_shells, domain, state.shells, halt)
            try:
                while waiting or busy:
                    if self.stop is not None and self.stop.is_set():
                        waiting.clear()
                        halt.set()
                    free = [one for one in self.device.each if one not in busy.values()]
                    for one in free[: len(waiting)]:
                        optode = waiting.pop(0)
                        task = pool.submit(
                            self._trace, self._problem(domain, optode, first), optode, state, one, photons, halt
                        )
                        busy[task] = one
                    for task in wait(busy, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done:
                        del busy[task]
                        task.result()
                    if shells.done():
                        shells.result()  # which raises what went wrong there
                    yield ready + sum(photons.values())
            finally:
                halt.set()  # so that no worker goes on for a caller that is gone

    def _new_store(self, problem: OptodeProblem) -> FluenceStore:
        """An empty store, once it is sure that everything fits."""
        rows, groups = len(self.placement.probe.names), self.settings.groups
        size = FluenceStore.bytes_of(len(self.voxels), rows, groups)
        needed = size + problem.needed_bytes(self.device, **problem.options(self.device))
        free_gpu_pool(self.device)
        if needed > (free := free_memory_bytes(self.device)):
            raise InvalidInput(
                f"the fluence of {rows} optodes in {len(self.voxels):,} voxels, by {groups} groups of photons, needs "
                f"{memory_text(needed)} and {memory_text(free)} are free on {self.device}; take larger voxels, fewer "
                "groups, or parts of the probe one after another"
            )
        make = backend("napari_gpubio.probes.kernels.pairs", self.device).store
        open_store = functools.partial(make, self.voxels, rows, groups, self.device)
        return within_memory(open_store, self.device, size, "the fluence of all optodes")

    def _put_what_was_read(self, state: State, tally_size: int) -> None:
        """Put into a new store what a file has of an earlier run; InvalidInput if it does not fit."""
        store, size = state.open_store, self.settings.group_size(self.device.kind)
        with store.here():
            for optode in list(state.read):
                values = state.read.pop(optode)
                photons, path = state.begun.get(optode, Begun(self.photons, None))
                is_open = photons % size > 0
                if (
                    optode not in self.optodes
                    or not 0 <= photons <= self.photons
                    or values.shape != (photons // size, len(self.voxels))
                    or (path is None) == is_open
                    or (path is not None and (path.shape != (tally_size,) or path.dtype != np.uint64))
                ):
                    raise InvalidInput(
                        f"what the model to go on with has of optode {optode} does not fit its run; the file is "
                        "damaged: remove it to begin anew"
                    )
                store.values[optode, : len(values)] = store.xp.asarray(values, np.float32)
                if photons == self.photons:
                    store.done.add(optode)
                    state.begun.pop(optode, None)

    def _problem(self, domain: Domain, optode: int, like: OptodeProblem | None) -> OptodeProblem:
        """The simulation of an optode; ``like`` is another one in the same domain, whose grid it shares."""
        source = self.source(domain, optode)
        check_source(domain, source)
        problem = OptodeProblem(domain, source, self.settings.light(self.device.kind, optode))
        if like is not None:
            vars(problem).update({name: getattr(like, name) for name in ("rows", "media", "mua", "mus")})
        return problem

    def _trace(
        self,
        problem: OptodeProblem,
        optode: int,
        state: State,
        device: Device,
        photons: dict[int, int],
        halt: threading.Event,
    ) -> None:  # fmt: skip
        """Trace the photons of an optode that are not done, unless the work is stopped before."""
        store, begun = state.open_store, state.begun.get(optode, _NOTHING)
        quantum = problem.fluence_of_quantum(problem.batch_size)

        def keep(group: int, tally: Any) -> None:
            store.put(optode, group, tally, quantum)

        with Runs(problem, device, keep=keep) as runs:
            (run,) = runs.each
            run.go_on(*begun)
            ranges = [problem.batch_range(batch) for batch in range(problem.batch_count)]
            rest = [(max(start, begun.photons), stop) for start, stop in ranges if stop > begun.photons]
            noted = time.monotonic()
            for traced in runs.pieces(joined(rest, run.span), halt):
                photons[optode] = begun.photons + traced
                if time.monotonic() - noted > _NOTE_SECONDS:
                    state.begun[optode] = Begun(photons[optode], run.open_path())
                    noted = time.monotonic()
            if photons[optode] == problem.settings.photons:
                store.done.add(optode)
                state.begun.pop(optode, None)
            else:
                state.begun[optode] = Begun(photons[optode], run.open_path())

    # -- products -----------------------------------------------------------------------------------------------------

    def products(
        self, domain: Domain, state: State, columns: npt.NDArray[np.int64] | None, wavelength: float
    ) -> WavelengthModel:
        """Rows, label sums and errors of all pairs at a wavelength."""
        store, shells = state.open_store, state.shells
        for optode in store.done - shells.keys():
            shells[optode] = self.shells_of(domain, optode)
        made = Products(
            domain=domain,
            pairs=self.placement.probe.all_pairs,
            sources=len(self.placement.probe.sources),
            places_mm=self.placement.probe.positions_mm,
            shells=[shells.get(optode, ()) for optode in range(len(self.placement.probe.names))],
            squares=np.array([domain.medium(label).n ** 2 for label in domain.labels_present]),
            chosen=columns,
            threshold=self.settings.threshold,
        )
        with store.here():
            return wavelength_model(made, store, wavelength)

    def shells_of(self, domain: Domain, optode: int) -> tuple[Shell, ...]:
        """Shells around an optode."""
        inside = inside_at(domain, self.placement.probe.positions_mm[optode], self.placement.directions[optode])
        core = self.kind(optode).core_mm
        return shells_around(domain, self.settings.light(self.device.kind, optode), inside, core)

    def _find_shells(self, domain: Domain, found: dict[int, tuple[Shell, ...]], halt: threading.Event) -> None:
        """Find the shells of all optodes while their photons are traced."""
        for optode in self.optodes:
            if halt.is_set():
                return
            if optode not in found:
                found[optode] = self.shells_of(domain, optode)


def inside_at(domain: Domain, point: Array, direction: Array) -> Array:
    """A place in the tissue at an optode: the surface of voxels has steps, so it may take a voxel to be inside."""
    step = float(domain.voxel_sizes_mm.min()) / 4
    for count in range(1, 13):
        inside = point + (_INWARD_MM if count == 1 else (count - 1) * step) * direction
        if label_at(domain.labels, domain.affine, inside) != OUTSIDE:
            return np.asarray(inside)
    raise InvalidInput(f"there is no tissue below the optode at {position_text(point)}; check the labels there")


def _optics(medium: Medium) -> str:
    return f"mua {medium.mua_per_mm:g}/mm, mus {medium.mus_per_mm:g}/mm, g {medium.g:g}, n {medium.n:g}"


def _vector(values: Array) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z
