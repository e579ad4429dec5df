"""Frames of a camera, one after another: what a live loop calls."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.chunks import open_run
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.frames import checked_values, kernel_dtype
from napari_gpubio.speckle.kernels.contrast import cpu
from napari_gpubio.speckle.kernels.contrast.problem import Maps, Recipe
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.settings import ContrastSettings

Array = npt.NDArray[Any]
RESULTS = 3  # maps that stay as they are while the next ones are made


class ContrastStream:
    """Contrast of frames as they come, on the CPU or on the first GPU of a device.

    Frames of a temporal window are kept where they are worked on. Maps are views of memory that is used again: those of
    a push stay as they are until three more have given maps.

    Parameters
    ----------
    settings
        See `ContrastSettings`.
    shape
        Of a frame, (Y, X).
    dtype
        Of the frames.
    noise, baseline
        See `napari_gpubio.speckle.contrast_steps`.
    device
        See `napari_gpubio.core.device.choose_device`.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.speckle import ContrastSettings, ContrastStream
    >>> with ContrastStream(ContrastSettings(mode="temporal", frames=2), (8, 8), np.uint8, device="cpu") as stream:
    ...     maps = [stream.push(np.full((8, 8), level, np.uint8)) for level in (10, 20, 20)]
    >>> [None if one is None else round(float(one.contrast[0, 0]), 4) for one in maps]
    [None, 0.4714, 0.0]
    """

    def __init__(
        self,
        settings: ContrastSettings,
        shape: tuple[int, int],
        dtype: npt.DTypeLike,
        *,
        noise: NoiseModel | None = None,
        baseline: npt.ArrayLike | None = None,
        device: str | Device = "auto",
    ) -> None:
        rows, width = shape
        self._given = np.dtype(dtype)
        self._recipe = Recipe(
            settings=settings,
            noise=noise or NoiseModel(),
            shape=(int(rows), int(width)),
            dtype=kernel_dtype(dtype),
            baseline=baseline,
        )
        self.device = choose_device(device)
        self._live: Any = _make_live(self._recipe, self.device)
        self._in_window = 0

    @property
    def settings(self) -> ContrastSettings:
        """How maps are made."""
        return self._recipe.settings

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a frame, (Y, X)."""
        return self._recipe.shape

    def slot(self) -> Array:
        """Return memory for the next frame: a camera that writes there and pushes it spares a copy on a GPU."""
        return np.asarray(self._live.slot())

    def push(self, frame: Array) -> ContrastMaps | None:
        """Take the next frame.

        Parameters
        ----------
        frame
            Shape (Y, X), of the stream's type; it is not kept.

        Returns
        -------
        Maps of shape (Y, X), or None where no window is full yet.

        Raises
        ------
        InvalidInput
            If the frame has another shape or type, or holds NaN.
        """
        if frame.shape != self.shape or frame.dtype != self._given:
            raise InvalidInput(
                f"a frame has shape {frame.shape} of {frame.dtype}, and those before it {self.shape} of {self._given}; "
                "make a new stream when the camera's region or type changes"
            )
        if frame.dtype != self._recipe.dtype or self._recipe.is_real:
            frame = checked_values(frame[None], self._recipe.dtype)[0]
        self._in_window += 1
        full = self._in_window >= self.settings.depth
        made: Maps | None = self._live.push(frame, wanted=full)
        if full and self.settings.blocks:
            self._in_window = 0
        if made is None:
            return None
        contrast, index, mask = made.one(0)
        return ContrastMaps(contrast=contrast, index=index, mask=mask, settings=self.settings)

    def __call__(self, frame: Array) -> ContrastMaps | None:
        """Do as `push` does."""
        return self.push(frame)

    def forget(self) -> None:
        """Begin a new window, after a gap in the frames for instance."""
        self._in_window = 0
        self._live.forget()

    def close(self) -> None:
        """Free the memory."""
        self._live.close()

    def __enter__(self) -> "ContrastStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _make_live(recipe: Recipe, device: Device) -> Any:
    if not device.is_gpu:
        return cpu.Live(recipe, device, RESULTS)
    from napari_gpubio.speckle.kernels.contrast import gpu

    first = Device("cuda", device.indices[:1])
    needed = recipe.settings.depth * int(np.prod(recipe.shape)) * recipe.dtype.itemsize
    return open_run(lambda: gpu.Live(recipe, first, RESULTS), first, needed, "contrast of such frames")
