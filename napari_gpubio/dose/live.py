"""Histograms that follow the brush: a calculation that stays open while labels are painted."""

import dataclasses
import threading
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.core.timing import RunClock
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.model import Dose, Structures, is_turned, listed
from napari_gpubio.dose.resident import OpenCalculation
from napari_gpubio.dose.run import provenance
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.labels import LabelStructures

if TYPE_CHECKING:
    from napari_gpubio.dose.kernels.histogram.tally import Tally
    from napari_gpubio.dose.kernels.histogram.work import Box, LabelWork

Array = npt.NDArray[Any]
Slices = tuple[slice, slice, slice]
_COMPARED_VOXELS = 1 << 18  # at once; their comparison stays in a cache


class LiveDvh(OpenCalculation):
    """A calculation that is kept open, on the first GPU of a device or on the CPU.

    Painting subtracts the old voxels of a box and adds the new ones; since counts are integers, the histograms are
    those of a calculation from the start. How densely each structure is sampled is decided once, in the beginning.
    Only one thread may use it at a time.

    Parameters
    ----------
    dose, structures, settings, device
        See `napari_gpubio.dose.dvh_steps`. Labels are copied. Give names to labels that are not there yet.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, LabelStructures, LiveDvh
    >>> dose = Dose(values=np.full((8, 8, 8), 2.0), affine=np.eye(4), unit="Gy")
    >>> labels = LabelStructures(labels=np.zeros((8, 8, 8), np.uint8), affine=np.eye(4), structures={1: "organ"})
    >>> with LiveDvh(dose, labels, device="cpu") as live:
    ...     live.paint((2, 2, 2), np.ones((2, 2, 2), np.uint8))
    ...     live.dvhs()[0].volume_cc
    0.008
    """

    def __init__(
        self,
        dose: Dose,
        structures: Structures | Iterable[Structures],
        settings: DvhSettings | None = None,
        *,
        device: str | Device = "auto",
    ) -> None:
        self._prepare(dose, structures, settings, device)
        drive(self._count_steps(None))

    @classmethod
    def steps(
        cls,
        dose: Dose,
        structures: Structures | Iterable[Structures],
        settings: DvhSettings | None = None,
        *,
        device: str | Device = "auto",
        stop: threading.Event | None = None,
    ) -> Generator[Step, None, "LiveDvh"]:
        """Open a calculation step by step; arguments as of `napari_gpubio.dose.dvh_steps`, incomplete if stopped."""
        live = cls.__new__(cls)
        live._prepare(dose, structures, settings, device)
        try:
            yield from live._count_steps(stop)
        except BaseException:  # nobody else can free it
            live.close()
            raise
        return live

    def _prepare(
        self,
        dose: Dose,
        structures: Structures | Iterable[Structures],
        settings: DvhSettings | None,
        device: str | Device,
    ) -> None:
        own = [_copied(one) if isinstance(one, LabelStructures) else one for one in listed(structures)]
        self._turned = [is_turned(one.labels) for one in own if isinstance(one, LabelStructures)]
        self._open(dose, own, settings, device, painted=True)
        self._done, self._seconds = 0, 0.0
        self._known: tuple[Tally, tuple[Dvh, ...]] | None = None  # the last histograms, and what they were made of

    def _count_steps(self, stop: threading.Event | None) -> Generator[Step, None, None]:
        clock = RunClock()
        for done in self._runs.chunks(stop):
            self._done = done
            yield Step(done, self.problem.items, "counting dose")
        self._seconds = clock.seconds

    @property
    def complete(self) -> bool:
        """False if counting was stopped before its end; painting is not possible then."""
        return self._done == self.problem.items

    def dvhs(self) -> tuple[Dvh, ...]:
        """The histograms as they are now, in the order of the structures; those that have not changed are the same."""
        from napari_gpubio.dose.kernels.histogram.tally import make_dvhs

        tally = self.run.snapshot()
        dvhs = make_dvhs(self.problem, tally, self._settings, self._dose.unit, before=self._known)
        self._known = (tally, dvhs)
        return dvhs

    def result(self) -> DvhResult:
        """The histograms as they are now, with how they were made."""
        parameters = provenance(self._dose, self._settings, self._device, self._seconds)
        return DvhResult(dvhs=self.dvhs(), parameters=parameters, complete=self.complete)

    def paint(self, start: Sequence[int], labels: npt.ArrayLike, *, volume: int = 0) -> None:
        """Put other labels into a box of a label volume.

        Parameters
        ----------
        start
            The box's first voxel.
        labels
            Those of the box, shape (A, B, C).
        volume
            Which of the label volumes, in the order in which they were given.

        Raises
        ------
        InvalidInput
            If there is no such volume, or the box is not in it, or not everything has been counted yet.
        """
        if not self.complete:
            raise InvalidInput("counting was stopped before its end; count everything before labels are painted")
        number, work = self._label_work(volume)
        new = self._checked(start, labels, volume, work)
        first = tuple(int(n) for n in (reversed(start) if self._turned[volume] else start))
        end = tuple(n + length for n, length in zip(first, new.shape, strict=True))
        box: Box = (first[0], end[0], first[1], end[1], first[2], end[2])
        self.run.tally_box(number, box, -1)
        self.run.paint(number, box, new)
        work.labels[box[0] : box[1], box[2] : box[3], box[4] : box[5]] = new  # those of a GPU are elsewhere
        self.run.tally_box(number, box, 1)
        self.run.renew_extremes(number, box)

    def follow(self, labels: npt.ArrayLike, *, start: Sequence[int] = (0, 0, 0), volume: int = 0) -> Slices | None:
        """Paint what differs between other labels and those that were counted.

        Parameters
        ----------
        labels
            Those of a box of the volume, or of all of it, shape (A, B, C).
        start
            The box's first voxel.
        volume
            Which of the label volumes.

        Returns
        -------
        tuple of slices, or None
            The smallest box of the volume with all differences, or None if there are none.

        Raises
        ------
        InvalidInput
            As `paint`.
        """
        known, given = self.labels(volume), np.asarray(labels)
        if given.ndim != 3 or not _is_voxel(start):
            raise InvalidInput(f"a box of shape {given.shape} at {tuple(start)} is not in a label volume")
        there = known[tuple(slice(int(n), int(n) + length) for n, length in zip(start, given.shape, strict=True))]
        if there.shape != given.shape:
            raise InvalidInput(f"a box of shape {given.shape} at {tuple(start)} is not in labels of {known.shape}")
        box = _differing(given, there)
        if box is None:
            return None
        self.paint([int(n) + part.start for n, part in zip(start, box, strict=True)], given[box], volume=volume)
        x, y, z = (slice(int(n) + part.start, int(n) + part.stop) for n, part in zip(start, box, strict=True))
        return x, y, z

    def labels(self, volume: int = 0) -> Array:
        """The labels that were counted, shape (X, Y, Z); not to be written to."""
        _, work = self._label_work(volume)
        return work.labels.T if self._turned[volume] else work.labels

    def _label_work(self, volume: int) -> "tuple[int, LabelWork]":
        from napari_gpubio.dose.kernels.histogram.work import LabelWork

        works = [(n, work) for n, work in enumerate(self.problem.works) if isinstance(work, LabelWork)]
        if not 0 <= volume < len(works):
            raise InvalidInput(f"there is no label volume {volume}; there are {len(works)}")
        return works[volume]

    def _checked(self, start: Sequence[int], labels: npt.ArrayLike, volume: int, work: "LabelWork") -> Array:
        """The labels of a box as they are kept."""
        given, shape = np.asarray(labels), self.labels(volume).shape
        fits = given.ndim == 3 and _is_voxel(start) and given.size > 0
        if not fits or any(n + m > size for n, m, size in zip(start, given.shape, shape, strict=True)):
            raise InvalidInput(f"a box of shape {given.shape} at {tuple(start)} is not in a label volume of {shape}")
        most = np.iinfo(work.labels.dtype).max
        if given.dtype.kind not in "biu" or int(given.min()) < 0 or int(given.max()) > most:
            raise InvalidInput(f"the painted labels must be integers from 0 to {most}")
        return (given.T if self._turned[volume] else given).astype(work.labels.dtype)


def _is_voxel(place: Sequence[int]) -> bool:
    return len(place) == 3 and all(n >= 0 and n == int(n) for n in place)


def _copied(structures: LabelStructures) -> LabelStructures:
    """The same with labels of its own, in the order in which they lie in memory."""
    order: Any = "F" if is_turned(structures.labels) else "C"
    return dataclasses.replace(structures, labels=np.array(structures.labels, order=order))


def _differing(a: Array, b: Array) -> Slices | None:
    """The smallest box outside which two volumes are equal; None if they are equal everywhere."""
    if not a.size:
        return None
    turned = is_turned(b)
    if turned:
        a, b = a.T, b.T
    together = max(_COMPARED_VOXELS // a[0].size, 1)
    parts = (slice(n, n + together) for n in range(0, len(a), together))
    rows = np.flatnonzero(np.concatenate([(a[part] != b[part]).any(axis=(1, 2)) for part in parts]))
    if not len(rows):
        return None
    first, end = int(rows[0]), int(rows[-1]) + 1
    differs = a[first:end] != b[first:end]
    columns, depths = (np.flatnonzero(differs.any(axis=axes)) for axes in ((0, 2), (0, 1)))
    box = slice(first, end), *(slice(int(found[0]), int(found[-1]) + 1) for found in (columns, depths))
    i, j, k = reversed(box) if turned else box
    return i, j, k
