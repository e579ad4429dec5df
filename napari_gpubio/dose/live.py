"""Histograms that follow while labels are painted: dose and labels stay where they are counted."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.curves.assemble import make_dvhs
from napari_gpubio.dose.curves.dvh import Dvh
from napari_gpubio.dose.histogram.cpu import Box
from napari_gpubio.dose.histogram.problem import make_problem
from napari_gpubio.dose.histogram.work import LabelWork
from napari_gpubio.dose.model import Dose, Structures
from napari_gpubio.dose.run import make_runs
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.labels import LabelStructures

Array = npt.NDArray[Any]


class LiveDvh:
    """A calculation that is kept open, on the first GPU of a device or on the CPU.

    Painting subtracts the old voxels of a box and adds the new ones; since counts are integers, the histograms are
    those of a calculation from the start. How densely each structure is sampled is decided once, in the beginning.

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
        structures: Structures | Sequence[Structures],
        settings: DvhSettings | None = None,
        *,
        device: str | Device = "auto",
    ) -> None:
        together = [structures] if isinstance(structures, Structures) else list(structures)
        own = [_copied(one) if isinstance(one, LabelStructures) else one for one in together]
        self._settings, self._unit = settings or DvhSettings(), dose.unit
        self._problem = make_problem(dose, own, self._settings)
        chosen = choose_device(device)
        (self._run,) = make_runs(self._problem, dataclasses.replace(chosen, indices=chosen.indices[:1]))
        self._run.advance(0, self._problem.items)

    def dvhs(self) -> tuple[Dvh, ...]:
        """The histograms as they are now, in the order of the structures."""
        return make_dvhs(self._problem, self._run.snapshot(), self._settings, self._unit)

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
            If there is no such volume, or the box is not in it.
        """
        number, work = self._label_work(volume)
        new = self._checked(start, labels, work)
        first = tuple(int(n) for n in start)
        end = tuple(n + length for n, length in zip(first, new.shape, strict=True))
        box: Box = (first[0], end[0], first[1], end[1], first[2], end[2])
        self._run.tally_box(number, box, -1)
        self._run.paint(number, box, new)
        self._run.tally_box(number, box, 1)
        self._renew_extremes(number, work, box)

    def _renew_extremes(self, number: int, work: LabelWork, box: Box) -> None:
        """Least and largest dose cannot be taken off, so the slices that were touched are looked at again."""
        self._run.forget_extremes(work.extremes + box[0], work.extremes + box[1])
        self._run.tally_box(number, (box[0], box[1], *work.box[2:]), 0)

    def _label_work(self, volume: int) -> tuple[int, LabelWork]:
        works = [(n, work) for n, work in enumerate(self._problem.works) if isinstance(work, LabelWork)]
        if not 0 <= volume < len(works):
            raise InvalidInput(f"there is no label volume {volume}; there are {len(works)}")
        return works[volume]

    def _checked(self, start: Sequence[int], labels: npt.ArrayLike, work: LabelWork) -> Array:
        given, shape = np.asarray(labels), work.labels.shape
        fits = given.ndim == 3 and len(start) == 3 and given.size > 0
        if not fits or any(n < 0 or n + m > size for n, m, size in zip(start, given.shape, shape, strict=True)):
            raise InvalidInput(f"a box of shape {given.shape} at {tuple(start)} is not in a label volume of {shape}")
        most = np.iinfo(work.labels.dtype).max
        if given.dtype.kind not in "biu" or int(given.min()) < 0 or int(given.max()) > most:
            raise InvalidInput(f"the painted labels must be whole numbers from 0 to {most}")
        return given.astype(work.labels.dtype)

    def close(self) -> None:
        """Free what is kept on the device."""
        self._run.close()

    def __enter__(self) -> "LiveDvh":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _copied(structures: LabelStructures) -> LabelStructures:
    """The same with labels of its own, in C order, so that a box is given in the axes in which they are kept."""
    return dataclasses.replace(structures, labels=np.array(structures.labels, order="C"))
