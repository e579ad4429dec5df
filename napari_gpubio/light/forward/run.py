"""From a head, a probe and settings to a forward model: a simulation of each optode, then products of all pairs.

Every optode is a source once for each wavelength, detectors too (by reciprocity), so that S sources and D detectors
take S + D simulations, not S times D. Their fluence stays on the device (`napari_gpubio.light.kernels.pairs`).
"""

import dataclasses
import functools
import hashlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.chunks import advance_in_pieces, within_memory
from napari_gpubio.core.device import CPU, Device, choose_device, free_gpu_pool, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import memory_text, position_text
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.core.timing import RunClock
from napari_gpubio.light.batches import FIRST_CHUNK, joined
from napari_gpubio.light.forward.model import Head, Probe, labels_named
from napari_gpubio.light.forward.place import Placement, place
from napari_gpubio.light.forward.products import Products, wavelength_model
from napari_gpubio.light.forward.result import ForwardModel, WavelengthModel
from napari_gpubio.light.forward.settings import ForwardSettings
from napari_gpubio.light.kernels.pairs.store import FluenceStore, TissueVoxels
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.model import OUTSIDE, Domain
from napari_gpubio.light.reciprocity import Shell, shells_around
from napari_gpubio.light.run import check_source
from napari_gpubio.light.source import Source, Vector
from napari_gpubio.light.surface import above_surface, label_at

Array = npt.NDArray[Any]
_WAIT_SECONDS = 0.1  # between looks at the photons that are done
_ONE_LAUNCH = 1 << 24  # photons of a GPU's first chunk: an optode takes a fraction of a second
_INWARD_MM = 1e-6
_MOST_NAMED = 6
_COARSE = 2.0  # voxels over transport mean free paths, from which on it is said
_CLOSE = "Within three transport mean free paths of an optode, and in CSF, a row is only indicative."


def forward_model(
    head: Head,
    probe: Probe | Placement,
    settings: ForwardSettings | None = None,
    *,
    labels: Iterable[int | str] | None = None,
    mask: Array | None = None,
    device: str | Device = "auto",
    resume: ForwardModel | None = None,
    progress: Callable[[Step], object] | None = None,
) -> ForwardModel:
    """Forward model of a probe on a head; see `forward_model_steps`, whose end this returns.

    Examples
    --------
    >>> from napari_gpubio import light
    >>> phantom = light.phantom.load_head_phantom()
    >>> head = light.forward.Head(
    ...     labels=phantom.labels, affine=phantom.affine, tissues=light.forward.head_tissues()
    ... )
    >>> probe = light.forward.Probe(
    ...     sources=("S1",), source_positions_mm=[(-45, 0, 75)],
    ...     detectors=("D1",), detector_positions_mm=[(-45, 25, 75)], wavelengths_nm=(760,),
    ... )
    >>> few = light.forward.ForwardSettings(photons=4000)
    >>> model = light.forward.forward_model(head, probe, few, labels=(4,), device="cpu")
    >>> model.matrix(760).shape[0], model.channels
    (1, ('S1D1',))
    """
    steps = forward_model_steps(head, probe, settings, labels=labels, mask=mask, device=device, resume=resume)
    return drive(steps, progress)


def forward_model_steps(
    head: Head,
    probe: Probe | Placement,
    settings: ForwardSettings | None = None,
    *,
    labels: Iterable[int | str] | None = None,
    mask: Array | None = None,
    device: str | Device = "auto",
    resume: ForwardModel | None = None,
    stop: threading.Event | None = None,
) -> Generator[Step, None, ForwardModel]:
    """Simulate every optode of a probe at every wavelength, and make the rows of all pairs, step by step.

    Parameters
    ----------
    head
        Labels and tissues.
    probe
        Sources and detectors in the world of the head (see `register`), which are placed on its scalp; or those that
        `place` has placed.
    settings
        Photons and what is kept; see `ForwardSettings`.
    labels
        Labels whose voxels are the columns, by number or name (``("gray matter", 5)``); None: all.
    mask
        Only voxels of these labels where this is not 0, shape (X, Y, Z).
    device
        See `napari_gpubio.core.device.choose_device`; several GPUs share the optodes, the first holds their fluence.
    resume
        A model that was stopped, of the same head, probe and settings, in the same process: only optodes that it lacks
        are simulated.
    stop
        Set it to stop early; pairs whose optodes are done have their rows, and ``complete`` is False.

    Raises
    ------
    InvalidInput
        If an optode is not at the scalp, a tissue is not known at a wavelength, no voxel is chosen, or there is too
        little memory.
    """
    settings, chosen_device = settings or ForwardSettings(), choose_device(device)
    wavelengths = _wavelengths(probe.probe if isinstance(probe, Placement) else probe, settings)
    first = head.at(wavelengths[0])
    domains = [first.with_optics(head.media(wavelength)) for wavelength in wavelengths]
    placement = probe if isinstance(probe, Placement) else place(probe, first)
    kept = placement.probe.within(settings.longest_mm or None)
    placement = dataclasses.replace(placement, probe=kept)
    work = _Work(
        head=head, domain=first, placement=placement, settings=settings, device=chosen_device, stop=stop,
        voxels=TissueVoxels(first), wanted=labels_named(first, labels), mask=mask,
    )  # fmt: skip
    columns = chosen_columns(work.voxels, first, work.wanted, mask)
    state = _state_of(resume, work.key(wavelengths, domains))
    clock, notes = RunClock(_seconds(resume)), [*placement.probe.notes, _CLOSE]
    total = work.photons * len(work.optodes) * len(wavelengths)
    message = f"photons of {len(work.optodes)} optodes"
    for wavelength, domain in zip(wavelengths, domains, strict=True):
        if wavelength in state.parts:
            continue
        before = work.photons * len(work.optodes) * len(state.parts)
        for done in work.simulate(domain, state):
            yield Step(before + done, total, f"{message} at {wavelength:g} nm")
        whole = len(state.open_store.done) == len(work.optodes)
        yield Step(before + work.photons * len(state.open_store.done), total, f"products of pairs at {wavelength:g} nm")
        part = work.products(domain, state.open_store, columns, wavelength)
        if not whole:
            return _result(work, state, part, clock, notes)
        state.parts[wavelength] = part
        state.close_store()
    return _result(work, state, None, clock, notes)


# -- the work ---------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _State:
    """What is done: whole wavelengths, and the fluence of the optodes of the one that is not whole."""

    key: str
    parts: dict[float, WavelengthModel] = field(default_factory=dict)
    store: FluenceStore | None = None

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


@dataclass(frozen=True, eq=False, kw_only=True)
class _Work:
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

    @functools.cached_property
    def backend(self) -> ModuleType:
        """The module of the device."""
        if self.device.is_gpu:
            from napari_gpubio.light.kernels.pairs import gpu

            return gpu
        from napari_gpubio.light.kernels.pairs import cpu

        return cpu

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

    def key(self, wavelengths: Sequence[float], domains: Sequence[Domain]) -> str:
        """Fingerprint of everything that a model depends on."""
        s, p = self.settings, self.placement
        words = (
            repr(s),
            self.photons,
            self.device.kind,
            tuple(wavelengths),
            p.probe.all_pairs,
            self.wanted,
            [d.media for d in domains],
        )
        found = hashlib.sha256(repr((*words, self.head.outside_n)).encode())
        for array in (domains[0].labels, domains[0].affine, p.probe.positions_mm, p.directions, self.mask):
            found.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    def source(self, domain: Domain, optode: int) -> Source:
        """The source that stands for an optode."""
        point, direction = self.placement.probe.positions_mm[optode], self.placement.directions[optode]
        kind = self.kind(optode)
        start = above_surface(domain.affine, point, direction)
        if kind != "pencil":
            start = _inside(domain, point, direction)
        return self.settings.source(kind, _vector(start), _vector(direction))

    def kind(self, optode: int) -> str:
        """What an optode is, one of `settings.OPTODES`."""
        is_source = optode < len(self.placement.probe.sources)
        return self.settings.sources if is_source else self.settings.detectors

    # -- photons ------------------------------------------------------------------------------------------------------

    def simulate(self, domain: Domain, state: _State) -> Iterator[int]:
        """Simulate the optodes that are not done; yields photons done at this wavelength."""
        first = self._problem(domain, self.optodes[0], None)
        if state.store is None:
            state.store = self._new_store(first)
        waiting = [optode for optode in self.optodes if optode not in state.store.done]
        ready = self.photons * (len(self.optodes) - len(waiting))
        devices = [Device("cuda", (index,)) for index in self.device.indices] if self.device.is_gpu else [CPU]
        photons, halt = dict.fromkeys(waiting, 0), threading.Event()
        busy: dict[Future[None], Device] = {}
        with ThreadPoolExecutor(len(devices), thread_name_prefix="napari-gpubio") as pool:
            try:
                while waiting or busy:
                    if self.stop is not None and self.stop.is_set():
                        waiting.clear()
                        halt.set()
                    free = [one for one in devices if one not in busy.values()]
                    for one in free[: len(waiting)]:
                        optode = waiting.pop(0)
                        task = pool.submit(
                            self._trace, self._problem(domain, optode, first), optode, state.store, one, photons, halt
                        )
                        busy[task] = one
                    for task in wait(busy, timeout=_WAIT_SECONDS, return_when=FIRST_COMPLETED).done:
                        del busy[task]
                        task.result()
                    yield ready + sum(photons.values())
            finally:
                halt.set()  # so that no worker goes on for a caller that is gone

    def _new_store(self, problem: VoxelProblem) -> FluenceStore:
        """An empty store, once it is sure that everything fits."""
        rows, groups = len(self.placement.probe.names), self.settings.groups
        size = FluenceStore.bytes_of(len(self.voxels), rows, groups)
        needed = size + self.backend.run_bytes(problem)
        free_gpu_pool(self.device)
        if needed > (free := free_memory_bytes(self.device)):
            raise InvalidInput(
                f"the fluence of {rows} optodes in {len(self.voxels):,} voxels, by {groups} groups of photons, needs "
                f"{memory_text(needed)} and {memory_text(free)} are free on {self.device}; take larger voxels, fewer "
                "groups, or parts of the probe one after another"
            )
        make = functools.partial(self.backend.store, self.voxels, rows, groups, self.device)
        return self._made(make, self.device, size, "the fluence of all optodes")

    @staticmethod
    def _made(make: Callable[[], Any], device: Device, needed: int, what: str) -> Any:
        return within_memory(make, device, needed, what) if device.is_gpu else make()

    def _problem(self, domain: Domain, optode: int, like: VoxelProblem | None) -> VoxelProblem:
        """The simulation of an optode; ``like`` is another one in the same domain, whose grid it shares."""
        source = self.source(domain, optode)
        check_source(domain, source)
        problem = VoxelProblem(domain, source, self.settings.light(self.device.kind, optode))
        if like is not None:
            vars(problem).update({name: getattr(like, name) for name in ("rows", "media", "mua", "mus")})
        return problem

    def _trace(
        self,
        problem: VoxelProblem,
        optode: int,
        store: FluenceStore,
        device: Device,
        photons: dict[int, int],
        halt: threading.Event,
    ) -> None:  # fmt: skip
        """Trace all photons of an optode, unless the work is stopped before."""
        quantum = problem.fluence_of_quantum(problem.batch_size)

        def keep(group: int, tally: Any) -> None:
            store.put(optode, group, tally, quantum)

        make = functools.partial(self.backend.GroupRun, problem, keep, device=device)
        run = self._made(make, device, self.backend.run_bytes(problem), "light transport in this volume")
        first_chunk = _ONE_LAUNCH if device.is_gpu else FIRST_CHUNK[device.kind]
        try:
            pieces = joined([problem.batch_range(batch) for batch in range(problem.batch_count)], run.span)
            for traced in advance_in_pieces([run], pieces, stop=halt, first_chunk=first_chunk):
                photons[optode] = traced
            if photons[optode] == problem.settings.photons:
                store.done.add(optode)
            else:
                photons[optode] = 0  # an optode that is not whole is done again
        finally:
            run.close()

    # -- products -----------------------------------------------------------------------------------------------------

    def products(
        self, domain: Domain, store: FluenceStore, columns: npt.NDArray[np.int64] | None, wavelength: float
    ) -> WavelengthModel:
        """Rows, label sums and errors of all pairs at a wavelength."""
        made = Products(
            domain=domain,
            pairs=self.placement.probe.all_pairs,
            sources=len(self.placement.probe.sources),
            places_mm=self.placement.probe.positions_mm,
            shells=self._shells(domain, store.done),
            squares=np.array([domain.medium(label).n ** 2 for label in domain.labels_present]),
            chosen=columns,
            threshold=self.settings.threshold,
        )
        with self.backend.on(self.device):
            return wavelength_model(made, store, wavelength)

    def _shells(self, domain: Domain, done: set[int]) -> list[tuple[Shell, ...]]:
        light = self.settings.light(self.device.kind, 0)
        probe, found = self.placement.probe, []
        for optode, (point, direction) in enumerate(zip(probe.positions_mm, self.placement.directions, strict=True)):
            core = self.settings.radius_mm if self.kind(optode) == "fiber" else 0.0
            inside = _inside(domain, point, direction)
            found.append(shells_around(domain, light, inside, core) if optode in done else ())
        return found


def _inside(domain: Domain, point: Array, direction: Array) -> Array:
    """A place in the tissue at an optode: the surface of voxels has steps, so it may take a voxel to be inside."""
    step = float(domain.voxel_sizes_mm.min()) / 4
    for count in range(1, 13):
        inside = point + (_INWARD_MM if count == 1 else (count - 1) * step) * direction
        if label_at(domain.labels, domain.affine, inside) != OUTSIDE:
            return np.asarray(inside)
    raise InvalidInput(f"there is no tissue below the optode at {position_text(point)}; check the labels there")


def chosen_columns(
    voxels: TissueVoxels, domain: Domain, labels: Sequence[int], mask: Array | None
) -> npt.NDArray[np.int64] | None:
    """Places of the columns among the tissue's voxels; None: all of them.

    Raises
    ------
    InvalidInput
        If the mask has another shape, or no voxel of the labels is in it.
    """
    if mask is None and set(labels) == set(domain.labels_present):
        return None
    wanted = np.zeros(len(voxels), np.bool_)
    for label, part in zip(domain.labels_present, voxels.slices, strict=True):
        wanted[part] = label in labels
    if mask is not None:
        if np.shape(mask) != domain.shape:
            raise InvalidInput(f"the mask has shape {np.shape(mask)} and the labels {domain.shape}; make them the same")
        wanted &= (np.asarray(mask) != 0).ravel()[voxels.flat]
    if not wanted.any():
        raise InvalidInput(
            f"no voxel of label {', '.join(map(str, labels))} is in the mask; choose other labels or another mask"
        )
    return np.flatnonzero(wanted)


def _wavelengths(probe: Probe, settings: ForwardSettings) -> tuple[float, ...]:
    wavelengths = settings.wavelengths_nm or probe.wavelengths_nm
    if not wavelengths:
        raise InvalidInput("the probe has no wavelengths; give wavelengths_nm (--wavelengths) in the settings")
    if len(set(wavelengths)) < len(wavelengths):
        raise InvalidInput(f"a wavelength occurs twice in {', '.join(f'{w:g}' for w in wavelengths)}; give each once")
    return wavelengths


def _state_of(resume: ForwardModel | None, key: str) -> _State:
    if resume is None:
        return _State(key)
    if not isinstance(resume.state, _State):
        raise InvalidInput("the model to resume has no state; only one that was stopped in this process has")
    if resume.state.key != key:
        raise InvalidInput("the model to resume is of another head, probe, settings or device; begin anew")
    return resume.state


def _seconds(resume: ForwardModel | None) -> float:
    return 0.0 if resume is None else float(resume.parameters.get("seconds", 0.0))


def _result(
    work: _Work, state: _State, unfinished: WavelengthModel | None, clock: RunClock, notes: list[str]
) -> ForwardModel:
    domain, voxels, complete = work.domain, work.voxels, unfinished is None
    columns = chosen_columns(voxels, domain, work.wanted, work.mask)
    parts = (*state.parts.values(), *(() if unfinished is None else (unfinished,)))
    model = ForwardModel(
        head=work.head,
        placement=work.placement,
        pairs=work.placement.probe.all_pairs,
        labels=domain.labels_present,
        label_names=tuple(domain.medium(label).name for label in domain.labels_present),
        voxels=voxels.flat if columns is None else voxels.flat[columns],
        parts=parts,
        settings=work.settings,
        complete=complete,
        parameters={
            "software": f"napari-gpubio {__version__}",
            "settings": dataclasses.asdict(work.settings),
            "photons": work.photons,
            "optodes": len(work.optodes),
            "device": work.device.describe(),
            "seconds": round(clock.seconds, 3),
        },
        notes=tuple(notes),
        state=None if complete else state,
    )
    return dataclasses.replace(model, notes=(*model.notes, *_coarse(work), *_findings(model)))


def _coarse(work: _Work) -> Iterator[str]:
    """A sentence where voxels are large against the paths between scatterings at an optode."""
    edge = float(work.domain.voxel_sizes_mm.max())
    places = zip(work.placement.probe.positions_mm, work.placement.directions, strict=True)
    media = (work.domain.medium_at(_inside(work.domain, *place)) for place in places)
    shortest = min(1.0 / (medium.mua_per_mm + medium.musp_per_mm) for medium in media)
    if edge > _COARSE * shortest:
        yield (
            f"Voxels of {edge:g} mm are large against the transport mean free path of {shortest:.2g} mm below an "
            "optode: paths may be off by tens of percent. Take voxels of half the size."
        )


def _findings(model: ForwardModel) -> Iterator[str]:
    """What to know about a model's numbers."""
    if close := [name for name, is_close in zip(model.channels, model.parts[0].close, strict=True) if is_close]:
        more = f" and {len(close) - _MOST_NAMED} more" if len(close) > _MOST_NAMED else ""
        yield (
            f"Source and detector of {', '.join(close[:_MOST_NAMED])}{more} are too close for an adjoint Jacobian, "
            "less than six transport mean free paths or five voxels: their rows are 0 and their errors infinite."
        )
    if dark := model.unreached():
        more = f" and {len(dark) - _MOST_NAMED} more" if len(dark) > _MOST_NAMED else ""
        yield (
            f"Too little light goes from source to detector of {', '.join(dark[:_MOST_NAMED])}{more}: their rows are 0 "
            "and their errors infinite. Simulate more photons, or leave pairs out that are far apart."
        )


def _vector(values: Array) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z
