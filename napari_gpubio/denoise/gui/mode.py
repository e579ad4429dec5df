"""What a way to denoise is for the panel: its inputs in the GUI thread, and its recipe for the worker.

A mode is one file: a `Mode` and its `Recipe`; its class goes into ``MODES`` of ``modes.py``.
"""

import threading
from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy.typing as npt
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.gui.numbers import Numbers
from napari_gpubio.denoise.napari_io import Array, LayerVolume, Part

if TYPE_CHECKING:
    from napari_gpubio.denoise.gui.request import Request


class Result(Protocol):
    """What an engine gives, whatever the mode; arrays of one shape, in the unit of the image."""

    @property
    def image(self) -> Array:
        """The denoised image."""
        ...

    @property
    def noise(self) -> Array:
        """Standard deviation of a noise, which `Words` name."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How it was made."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed on the way."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the run went to its end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How the results of a mode are told.

    Parameters
    ----------
    noise_title
        Name of the layer of the noise, with a place for that of the image.
    noise
        What that layer holds.
    gain, gain_tip
        What the gain is called, and where it comes from.
    times
        What so many times more of would do the same without a filter.
    about
        A sign before the gain: about so much, or at most.
    stopped
        What is said of a run that was stopped.
    """

    noise_title: str
    noise: str
    gain: str
    gain_tip: str
    times: str
    about: str = "≈"
    stopped: str


class Recipe(Protocol):
    """How an image is denoised, with every input that the mode has; used in a worker."""

    @property
    def partner(self) -> str:
        """Name of the layer that is the other half of the image; empty if the image is the whole."""
        ...

    @property
    def words(self) -> Words:
        """How its results are told."""
        ...

    def steps(
        self,
        values: Array,
        mask: npt.NDArray[Any] | None,
        *,
        voxel_size_mm: tuple[float, ...],
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, Result]:
        """Denoise linear values of shape (X, Y, Z) or (X, Y, Z, N)."""
        ...

    def reach(self, voxel_size_mm: tuple[float, ...]) -> tuple[int, int, int]:
        """How many voxels around a voxel its result depends on, along each axis; what changes little aside."""
        ...

    def near(self, voxel_size_mm: tuple[float, ...]) -> tuple[int, int, int]:
        """How many of them a first picture needs."""
        ...

    def cut(self, part: Part) -> "Recipe":
        """Return the recipe for a part of the image."""
        ...

    def before(self, values: Array) -> Array | None:
        """Return what is denoised, in linear values, if that is not the chosen image itself."""
        ...

    def scale(self, result: Any) -> Array | None:
        """Return how far each voxel was smoothed, mm, if the mode chooses that."""
        ...

    def numbers_steps(self, request: "Request", result: Any, stop: threading.Event) -> Generator[Step, None, Numbers]:
        """Say of a result what there is to be said in numbers."""
        ...


class Mode(QWidget):
    """The inputs of one way to denoise.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    title: ClassVar[str]
    tip: ClassVar[str] = ""
    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer

    @abstractmethod
    def recipe(self, image: LayerVolume) -> Recipe:
        """Read the inputs, in the GUI thread.

        Raises
        ------
        InvalidInput
            If something is missing or does not fit the image.
        """

    @abstractmethod
    def script(self, files: Mapping[str, Path], part: str) -> tuple[list[str], str]:
        """Return lines that read the mode's own inputs, and the call that denoises ``values``, without its bracket.

        Parameters
        ----------
        files
            Where the layers of `layers` and `labels` are, by their name.
        part
            Which volumes of a series are denoised, as the index of an array; empty for all of them.
        """

    def layers(self) -> list[Any]:
        """Image layers that are inputs of the mode, besides the image itself."""
        return []

    def labels(self) -> list[Any]:
        """Labels layers that are inputs of the mode."""
        return []

    def set_image(self, layer: Any | None) -> None:
        """Hear that another image was chosen; a mode may choose what belongs to it."""

    def attach(self) -> None:
        """Follow the viewer's layers."""

    def detach(self) -> None:
        """Hear no more of the viewer."""
