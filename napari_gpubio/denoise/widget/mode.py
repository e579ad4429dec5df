"""What a way to denoise is for the panel: its inputs in the GUI thread, and its recipe for the worker.

A mode is one file: a `Mode` and its `Recipe`; its class goes into ``MODES`` of ``modes.py``.
"""

import threading
from abc import abstractmethod
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy.typing as npt
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.widget.volumes import Array, LayerVolume, Part

if TYPE_CHECKING:
    from napari_gpubio.denoise.widget.request import Request


class Recipe(Protocol):
    """How an image is denoised, with every input that the mode has; used in a worker."""

    def steps(
        self,
        values: Array,
        mask: npt.NDArray[Any] | None,
        *,
        voxel_size_mm: tuple[float, ...],
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, DenoiseResult]:
        """Denoise linear values of shape (X, Y, Z) or (X, Y, Z, N)."""
        ...

    def reach(self, voxel_size_mm: tuple[float, ...]) -> tuple[int, int, int]:
        """How many voxels around a voxel its result depends on, along each axis; mixing of sub-bands aside."""
        ...

    def cut(self, part: Part) -> "Recipe":
        """Return the recipe for a part of the image."""
        ...

    def gain_steps(self, block: "Request", stop: threading.Event) -> Generator[Step, None, float]:
        """Estimate the gain in signal / noise on a small part of the image, dB; NaN where nothing can be said."""
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
    def script(self, files: Mapping[str, Path]) -> tuple[list[str], str]:
        """Return lines that read the mode's own inputs, and the call that denoises ``values``, without its bracket.

        Parameters
        ----------
        files
            Where the layers of `layers` are, by their name.
        """

    def layers(self) -> list[Any]:
        """Image layers that are inputs of the mode, besides the image itself."""
        return []

    def attach(self) -> None:
        """Follow the viewer's layers."""

    def detach(self) -> None:
        """Hear no more of the viewer."""
