"""From a head, a probe and settings to a forward model: a simulation of each optode, then products of all pairs.

Every optode is a source once for each wavelength, detectors too (by reciprocity), so that S sources and D detectors
take S + D simulations, not S times D. Their fluence stays on the device (`napari_gpubio.probes.kernels.pairs`).
"""

import dataclasses
import functools
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.keeping import Inputs, check_inputs
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.text import first_of
from napari_gpubio.core.timing import RunClock
from napari_gpubio.optics.model import Domain
from napari_gpubio.probes.forward.model import Head, Probe, labels_named
from napari_gpubio.probes.forward.place import Placement, place
from napari_gpubio.probes.forward.result import ForwardModel, WavelengthModel
from napari_gpubio.probes.forward.settings import ForwardSettings
from napari_gpubio.probes.forward.work import State, Work, inside_at
from napari_gpubio.probes.kernels.pairs.store import TissueVoxels

Array = npt.NDArray[Any]
_MAX_NAMED = 6
_COARSE = 2.0  # voxels over transport mean free paths, from which on it is said
_CLOSE = "Within three transport mean free paths of an optode, and in CSF, a row is only indicative."


def forward_model_steps(
    head: Head,
    probe: Probe | Placement,
    settings: ForwardSettings | None = None,
    *,
    labels: Iterable[int | str] | None = None,
    mask: Array | None = None,
    device: str | Device = "auto",
    resume: ForwardModel | State | None = None,
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
        A model that was stopped, or what `read_unfinished` has read of its file, of the same head, probe and settings:
        only photons that it lacks are traced.
    stop
        Set it to stop early; pairs whose optodes are done have their rows, and ``complete`` is False.

    Raises
    ------
    InvalidInput
        If an optode is not at the scalp, a tissue is not known at a wavelength, no voxel is chosen, ``resume`` is of
        something else, or there is too little memory.

    Examples
    --------
    >>> from napari_gpubio import optics, probes
    >>> phantom = optics.phantom.load_head_phantom()
    >>> head = probes.forward.Head(
    ...     labels=phantom.labels, affine=phantom.affine, tissues=probes.forward.head_tissues()
    ... )
    >>> probe = probes.forward.Probe(
    ...     sources=("S1",), source_positions_mm=[(-45, 0, 75)],
    ...     detectors=("D1",), detector_positions_mm=[(-45, 25, 75)], wavelengths_nm=(760,),
    ... )
    >>> few = probes.forward.ForwardSettings(photons=4000)
    >>> model = probes.forward.forward_model(head, probe, few, labels=(4,), device="cpu")
    >>> model.matrix(760).shape[0], model.channels
    (1, ('S1D1',))
    """
    settings, chosen_device = settings or ForwardSettings(), choose_device(device)
    wavelengths = wavelengths_of(probe.probe if isinstance(probe, Placement) else probe, settings)
    first = head.at(wavelengths[0])
    voxels = TissueVoxels(first)
    domains = [first.with_optics(head.media(wavelength)) for wavelength in wavelengths]
    placement = probe if isinstance(probe, Placement) else place(probe, first)
    kept = placement.probe.within(settings.longest_mm or None)
    placement = dataclasses.replace(placement, probe=kept)
    work = Work(
        head=head, domain=first, placement=placement, settings=settings, device=chosen_device, stop=stop,
        voxels=voxels, wanted=labels_named(first, labels), mask=mask,
    )  # fmt: skip
    columns = chosen_columns(voxels, first, work.wanted, mask)
    state = _state_of(resume, work.inputs(wavelengths, domains))
    clock, notes = RunClock(state.seconds), [*placement.probe.notes, _CLOSE]
    so_far = functools.partial(_result, work, state, (), clock, notes, complete=False)
    total = work.photons * len(work.optodes) * len(wavelengths)
    message = f"photons of {len(work.optodes)} optodes"
    for wavelength, domain in zip(wavelengths, domains, strict=True):
        if wavelength in state.parts:
            continue
        before = work.photons * len(work.optodes) * len(state.parts)
        for done in work.simulate(domain, state):
            yield Step(before + done, total, f"{message} at {wavelength:g} nm", make_preview=so_far)
        whole = len(state.open_store.done) == len(work.optodes)
        done = work.photons * len(state.open_store.done)
        yield Step(before + done, total, f"products of pairs at {wavelength:g} nm", make_preview=so_far)
        part = work.products(domain, state, columns, wavelength)
        if not whole:
            return _result(work, state, (part,), clock, notes, complete=False)
        state.parts[wavelength] = part
        state.close_store()
    return _result(work, state, (), clock, notes, complete=True)


forward_model = driven(forward_model_steps)


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


def wavelengths_of(probe: Probe, settings: ForwardSettings) -> tuple[float, ...]:
    """Return the wavelengths of a model, nm; InvalidInput if there are none, or one occurs twice."""
    wavelengths = settings.wavelengths_nm or probe.wavelengths_nm
    if not wavelengths:
        raise InvalidInput("the probe has no wavelengths; give wavelengths_nm (--wavelengths-nm)")
    if len(set(wavelengths)) < len(wavelengths):
        raise InvalidInput(f"a wavelength occurs twice in {', '.join(f'{w:g}' for w in wavelengths)}; give each once")
    return wavelengths


def _state_of(resume: ForwardModel | State | None, inputs: Inputs) -> State:
    if resume is None:
        return State(inputs)
    state = resume.state if isinstance(resume, ForwardModel) else resume
    if not isinstance(state, State):
        raise InvalidInput("the model to resume has no state; only one that was stopped has")
    check_inputs("model", state.inputs, inputs)
    return state


def _result(
    work: Work,
    state: State,
    unfinished: tuple[WavelengthModel, ...],
    clock: RunClock,
    notes: list[str],
    *,
    complete: bool,
) -> ForwardModel:
    domain, voxels = work.domain, work.voxels
    state.seconds = round(clock.seconds, 3)
    columns = chosen_columns(voxels, domain, work.wanted, work.mask)
    model = ForwardModel(
        head=work.head,
        placement=work.placement,
        pairs=work.placement.probe.all_pairs,
        labels=domain.labels_present,
        label_names=tuple(domain.medium(label).name for label in domain.labels_present),
        voxels=voxels.flat if columns is None else voxels.flat[columns],
        parts=(*state.parts.values(), *unfinished),
        settings=work.settings,
        complete=complete,
        parameters={
            "software": f"napari-gpubio {__version__}",
            "settings": plain_fields(work.settings),
            "photons": work.photons,
            "optodes": len(work.optodes),
            "device": work.device.describe(),
            "seconds": state.seconds,
            **({} if complete else {"inputs": state.inputs}),
        },
        notes=tuple(notes),
        state=None if complete else state,
    )
    findings = _findings(model) if model.parts else ()
    return dataclasses.replace(model, notes=(*model.notes, *_coarse(work), *findings))


def _coarse(work: Work) -> Iterator[str]:
    """A sentence where voxels are large against the paths between scatterings at an optode."""
    edge = float(work.domain.voxel_sizes_mm.max())
    where = work.placement
    places = ((where.probe.positions_mm[optode], where.directions[optode]) for optode in work.optodes)
    media = (work.domain.medium_at(inside_at(work.domain, *place)) for place in places)
    most = max(medium.mua_per_mm + medium.musp_per_mm for medium in media)
    if edge * most > _COARSE:
        shortest = 1.0 / most
        yield (
            f"Voxels of {edge:g} mm are large against the transport mean free path of {shortest:.2g} mm below an "
            "optode: paths may be off by tens of percent. Take voxels of half the size."
        )


def _findings(model: ForwardModel) -> Iterator[str]:
    """What to know about a model's numbers."""
    is_close = np.any([part.close for part in model.parts], axis=0)
    if close := [name for name, one in zip(model.channels, is_close, strict=True) if one]:
        yield (
            f"Source and detector of {first_of(close, _MAX_NAMED)} are too close for an adjoint Jacobian at "
            "one wavelength at least, less than six transport mean free paths or five voxels: there their rows are 0 "
            "and their errors infinite."
        )
    if dark := model.unreached():
        yield (
            f"Too little light goes from source to detector of {first_of(dark, _MAX_NAMED)}: their rows are 0 "
            "and their errors infinite. Simulate more photons, or leave pairs out that are far apart."
        )
