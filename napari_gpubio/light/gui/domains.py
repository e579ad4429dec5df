"""A run in voxels as the panel reads it: labels with optical properties, whose operation a worker finds, and light."""

import dataclasses
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Labels

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations import STORE, file
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.runs import value_of
from napari_gpubio.core.reading import without_notes
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.gui.layers import VOLUME, why_not_array
from napari_gpubio.light.gui.fibers import FiberChoice
from napari_gpubio.light.gui.labels import Tissue
from napari_gpubio.light.napari_io import labels_layer
from napari_gpubio.light.operations import HeldDiffusionTensors, HeldDomain, OpenDomain, OpenRun, Simulate, WithFibers
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.anisotropy.calibration import FiberMap, fiber_map, with_fiber_map
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import AnySource, all_sources


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TissueInputs:
    """Labels and their optical properties.

    ``study`` begins the names of layers and files. ``carried`` is the domain that came with the labels, for what the
    panel does not show. ``fibers``: what their scattering follows, or None.
    """

    study: str
    tissue: Tissue
    media: tuple[Medium, ...]
    carried: Domain | None
    fibers: FiberChoice | None = None
    path: Path | None = None  # of the file that the labels came from

    def has_only_labels(self) -> bool:
        """Whether all that counts of it is labels and media."""
        carried = self.carried
        return carried is None or not (
            carried.is_continuous or carried.phase_function is not None or (carried.is_anisotropic and not self.fibers)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoxelDraft:
    """What the panel reads of a run in voxels: all of its operation, but for where the labels come from."""

    volume: TissueInputs
    source: AnySource
    detectors: tuple[Detector, ...]
    settings: LightSettings

    def operation(self, domains: "Domains", domain: Domain | None = None) -> Simulate:
        """Return the operation; its labels are looked through, and their file, which takes a moment.

        ``domain``: what was made of the labels, which may have been painted on since.
        """
        tissue = domains.operation(self.volume, domain)
        return Simulate.of(tissue, all_sources(self.source), self.settings, self.detectors)

    def is_same_run(self, made: "VoxelDraft", result: LightResult) -> bool:
        """Whether a result that was made of inputs is of these, be it with another number of photons.

        The labels may have been read anew since, or painted on: they are compared with those of the result.
        """
        settings = dataclasses.replace(made.settings, photons=self.settings.photons)
        here = (self.source, self.detectors, self.settings)
        if here != (made.source, made.detectors, settings) or made.volume.carried is not self.volume.carried:
            return False
        if not _has_same_properties(made.volume, self.volume):
            return False
        old, new = made.volume.tissue, self.volume.tissue
        return old is new or (
            np.array_equal(old.affine, new.affine) and np.array_equal(result.domain.labels, new.labels)
        )

    def describes(self, result: LightResult) -> bool:
        """Whether a result from a file is all of these inputs, as far as the panel has controls for them."""
        light = (self.source, self.detectors, self.settings) == (result.source, result.detectors, result.settings)
        media = {medium.label: medium for medium in result.domain.media}
        return light and all(media.get(medium.label) == medium for medium in self.volume.media)


class Domains:
    """Makes domains in the worker, and keeps the last one: its checks take a while for large volumes.

    So do the fibers of diffusion tensors, which are kept while optical properties change, and where labels come from.
    """

    def __init__(self) -> None:
        self._volume: TissueInputs | None = None
        self._domain: Domain | None = None
        self._operation: Operation | None = None  # that makes the domain
        self._fibers: tuple[TissueInputs, FiberMap] | None = None
        self._lock = threading.RLock()  # a quick run may still be ending while the next run begins

    def of(self, volume: TissueInputs) -> Domain:
        """Return the domain of a volume; `InvalidInput` if labels and properties do not make one."""
        with self._lock:
            if self._domain is None or self._volume is None or not _is_same(self._volume, volume):
                domain = _domain_of(volume)
                self._domain = domain if volume.fibers is None else self._with_fibers(domain, volume, volume.fibers)
                self._volume, self._operation = volume, None
            return self._domain

    def operation(self, volume: TissueInputs, made: Domain | None = None) -> Operation:
        """Return the operation that makes the domain of a volume, or one made of it before; it is kept as a result."""
        with self._lock:
            domain = self.of(volume) if made is None else made
            if domain is self._domain and self._operation is not None:
                return self._operation
            operation = _tissue_of(volume, domain)
            for kind in ("cpu", "cuda"):  # the same on both
                STORE.keep(operation, kind, domain)
            if domain is self._domain:
                self._operation = operation
            return operation

    def _with_fibers(self, domain: Domain, volume: TissueInputs, chosen: FiberChoice) -> Domain:
        held = self._fibers
        if held is None or held[0].tissue is not volume.tissue or not chosen.has_same_fibers(held[0].fibers):
            found = fiber_map(domain, chosen.tensors, chosen.affine, labels=chosen.labels)
            held = self._fibers = volume, found
        # they replace those that come with the labels, as in the script, which has none of these
        return with_fiber_map(domain.with_tensors(None), held[1], labels=chosen.labels, model=chosen.model)


def _is_same(a: TissueInputs, b: TissueInputs) -> bool:
    """Whether two volumes make the same domain."""
    return a.tissue is b.tissue and _has_same_properties(a, b)


def _has_same_properties(a: TissueInputs, b: TissueInputs) -> bool:
    """Whether two volumes have the same optical properties and fibers."""
    same_fibers = b.fibers is None if a.fibers is None else a.fibers.is_same(b.fibers)
    return a.media == b.media and same_fibers


def _domain_of(volume: TissueInputs) -> Domain:
    tissue, carried = volume.tissue, volume.carried
    labels = np.array(tissue.labels)  # a copy: the user may go on painting
    if carried is None or carried.shape != labels.shape:
        return Domain(labels=labels, affine=tissue.affine, media=volume.media)
    return dataclasses.replace(carried, labels=labels, affine=tissue.affine, media=volume.media)


def _tissue_of(volume: TissueInputs, domain: Domain) -> Operation:
    """Return what makes the domain of a volume: from its file, if that has the labels, or from copies."""
    fibers = volume.fibers
    rows: Any = np.asarray(domain.affine, np.float64)
    if volume.has_only_labels() and volume.path is not None and _holds(volume.path, domain):
        made: Operation = OpenDomain(
            file=file(volume.path), affine=rows, media=volume.media, outside_n=domain.outside_n
        )
    else:
        made = HeldDomain.of(domain if fibers is None else domain.with_tensors(None), volume.study)
    if fibers is None:
        return made
    rows = np.asarray(fibers.affine, np.float64)
    tensors = HeldDiffusionTensors(tensors=STORE.hold(fibers.tensors), affine=rows)
    return WithFibers(tissue=made, tensors=tensors, labels=fibers.labels, model=fibers.model)


def layer_of_tissue(viewer: Any, tissue: Output[Domain]) -> Any:
    """Return a layer with the labels of a tissue, or add one; it carries the tissue from now on, and its file."""
    domain, name = value_of(tissue), tissue.of.title
    data, keywords, _ = labels_layer(domain, name)
    same = [one for one in viewer.layers if why_not_array(one, Labels, VOLUME) is None and _shows(one, domain)]
    if not same:
        return viewer.add_labels(data, **keywords)
    layer = next((layer for layer in same if layer.name == name), same[-1])
    path = {"path": tissue.of.file.path} if isinstance(tissue.of, OpenDomain) else {}
    layer.metadata[KEY] = {**layer.metadata.get(KEY, {}), **keywords["metadata"][KEY], **path}
    return layer


def _shows(layer: Any, domain: Domain) -> bool:
    """Whether a layer has the labels of a domain in their place."""
    with suppress(InvalidInput):
        own = Tissue.of(layer)
        return np.allclose(own.affine, domain.affine) and np.array_equal(own.labels, domain.labels)
    return False


def _holds(path: Path, domain: Domain) -> bool:
    """Whether a file has these labels."""
    with suppress(InvalidInput), without_notes():
        return path.is_file() and np.array_equal(read_volume(path)[0], domain.labels)
    return False


def opened(result: LightResult, path: Any) -> Operation:
    """Return the operation of a result that was read from a file; without one, of all that it was made from."""
    is_there = path is not None and Path(path).suffix == ".npz" and Path(path).is_file()
    return OpenRun.at(path) if is_there else operation_of(result)


def operation_of(traced: LightResult) -> Operation:
    """Return the operation of a result, of all that it was made from."""
    return Simulate.of(HeldDomain.of(traced.domain), traced.sources, traced.settings, traced.detectors)
