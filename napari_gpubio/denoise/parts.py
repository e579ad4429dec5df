"""An image with all that it is denoised with, and parts of it, which are denoised as the whole is."""

import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence import FluenceSettings
from napari_gpubio.denoise.inputs import checked_mask
from napari_gpubio.denoise.kernels.anlm.problem import Triple, make_windows
from napari_gpubio.denoise.level import find_level
from napari_gpubio.denoise.noise import SeriesNoise, estimate, is_across_volumes
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.denoise.values import from_log10, mean_of_halves, to_log10
from napari_gpubio.denoise.volumes import (
    DenoisedVolume,
    Mask,
    Selection,
    denoise_volume_steps,
    is_log,
    linear_values,
)

Array = npt.NDArray[Any]
Box = tuple[slice, slice, slice]
Noise = SeriesNoise | Volume | float | None
EVERYTHING: Box = (slice(None), slice(None), slice(None))
# Largest scales around a voxel: what lies farther away changes fluence of 100 000 photons by < 2 %.
_FLUENCE_REACH = 2.5
_VOLUMES = ("second", "labels", "guide")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an image: some voxels, some volumes of a series (None: all of them), and another order of the axes."""

    box: Box = EVERYTHING
    volumes: slice | None = None
    axes: tuple[int, int, int] = (0, 1, 2)

    def back(self, array: Array) -> Array:
        """Return an array of the part with its axes as they were."""
        return array.transpose(*np.argsort(self.axes), *range(3, array.ndim))

    def of(self, volume: Volume) -> Volume:
        """Return the part of a volume, with what it carries."""
        return dataclasses.replace(
            volume,
            array=self._cut(volume.array),
            affine=volume.affine[:, [*self.axes, 3]],
            halves=None if volume.halves is None else np.stack([self._cut(half) for half in volume.halves]),
            guide=None if volume.guide is None else self._cut(volume.guide),
        )

    def _cut(self, array: Array) -> Array:
        where = self.box if array.ndim == 3 else (*self.box, self.volumes or slice(None))
        return array[where].transpose(*self.axes, *range(3, array.ndim))


@dataclass(frozen=True, eq=False, kw_only=True)
class Filtering:
    """An image, and all that it is denoised with: arguments of `napari_gpubio.denoise.denoise_volume_steps`."""

    image: Volume
    settings: Any  # `DenoiseSettings` or `FluenceSettings`
    selection: Selection
    noise: Noise = None
    second: Volume | None = None
    labels: Volume | None = None
    guide: Volume | None = None
    mueff_per_mm: float | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any], volumes: Mapping[str, Any]) -> "Filtering":
        """Return what an operation of a verb of denoising does.

        Parameters
        ----------
        fields
            Of the operation.
        volumes
            Its inputs, by the names of their fields.
        """
        chosen = {name: fields.get(name) for name in ("volumes", "log10")}
        return cls(
            image=volumes["image"],
            settings=fields["settings"],
            selection=Selection(mask=volumes.get("mask"), skip_gaps=fields.get("skip_gaps", False), **chosen),
            noise=fields.get("sigma") if volumes.get("noise") is None else volumes["noise"],
            mueff_per_mm=fields.get("mueff_per_mm"),
            **{name: volumes.get(name) for name in _VOLUMES},
        )

    def steps(self, **run: Any) -> Generator[Step, None, DenoisedVolume]:
        """Denoise it; ``run``: device and stop."""
        more = {name: getattr(self, name) for name in ("noise", "mueff_per_mm", *_VOLUMES)}
        return denoise_volume_steps(self.image, self.settings, self.selection, **more, **run)

    def linear(self) -> tuple[Array, Mask | None]:
        """Return values and mask as the filter takes them."""
        return linear_values(self.image, self.selection)

    # -- parts ----------------------------------------------------------------------------------------------------

    def cut(self, part: Part) -> "Filtering":
        """Return the same for a part of the image."""
        mask = None if self.selection.mask is None else part.of(self.selection.mask)
        known = {name: getattr(self, name) for name in ("image", "noise", *_VOLUMES)}
        cut: dict[str, Any] = {name: part.of(one) for name, one in known.items() if isinstance(one, Volume)}
        return dataclasses.replace(self, selection=dataclasses.replace(self.selection, mask=mask, volumes=None), **cut)

    def with_values(self, values: Array, mask: Mask | None) -> "Filtering":
        """Return the same with other values, which are linear, and another mask."""
        inside = None if mask is None else self.image.like(mask.astype(np.uint8))
        return dataclasses.replace(self, image=self.image.like(values), selection=Selection(mask=inside, log10=False))

    def unchanged(self) -> Array | None:
        """Return what is denoised, as the image holds it, where there is nothing to denoise; else None."""
        image, second, mask = self.image.array, None if self.second is None else self.second.array, self.selection.mask
        halves = self.image.halves if isinstance(self.settings, FluenceSettings) else None
        both = [image, *([] if second is None else [second]), *([] if halves is None else halves)]
        if all(map(np.any, both)) and (mask is None or mask.array.any()):
            return None
        if second is None or second.shape != image.shape:
            return image
        if not is_log(self.image, self.selection):
            return mean_of_halves(image, second)
        return to_log10(mean_of_halves(from_log10(image), from_log10(second)))

    # -- noise ----------------------------------------------------------------------------------------------------

    @property
    def is_across_volumes(self) -> bool:
        """Whether the noise is one number that all volumes of a series are needed for."""
        return self._is_open and is_across_volumes(self.settings, self.image.array.shape)

    @property
    def needs_noise(self) -> bool:
        """Whether there is a noise to be found in more than a part of the image."""
        return self._is_open and (self.is_across_volumes or self.settings.noise_from == "detail")

    @property
    def _is_open(self) -> bool:
        return isinstance(self.settings, DenoiseSettings) and self.noise is None

    def find_noise(self, volume: int) -> Noise:
        """Find the noise that a run would find in a volume, for parts of it: they are too few voxels to find it in.

        It is one number across the volumes, a map, or None where patches tell it.
        """
        is_whole = self.is_across_volumes or self.image.array.ndim < 4
        chosen = dataclasses.replace(self.selection, volumes=None if is_whole else (volume, volume))
        values, mask = linear_values(self.image, chosen)
        if self.is_across_volumes:
            return estimate(values, mask=mask)
        values = values.reshape(values.shape[:3])
        if self.settings.noise_from == "patches" or not np.isfinite(values).all() or not np.any(values):
            return None
        sigma = find_level(values, checked_mask(mask, values.shape), is_rician=self.settings.is_rician).sigma
        return None if sigma is None else self.image.like(sigma)

    def with_noise(self, noise: Noise) -> "Filtering":
        """Return the same with a noise that is known, or with none but that of patches."""
        if noise is None:
            return dataclasses.replace(self, settings=dataclasses.replace(self.settings, noise_from="patches"))
        return dataclasses.replace(self, noise=noise)

    # -- how far it reaches ---------------------------------------------------------------------------------------

    def reach(self, *, near: bool = False) -> Triple:
        """How many voxels around a voxel its result depends on, along each axis, but for what changes little.

        ``near``: how many of them a first preview needs; patches that go beyond are mirrored, which changes a result by
        some 2 % of the noise.
        """
        sizes = self.image.voxel_size_mm
        if not isinstance(self.settings, DenoiseSettings):  # with less than the widest window scales would be missing
            widest = _FLUENCE_REACH * self.settings.largest_scale * min(sizes)
            x, y, z = (int(np.ceil(widest / size)) for size in sizes)
            return x, y, z
        windows = make_windows(self.settings, sizes)
        x, y, z = (
            max(search + box + (not near) * patch, 2 * max(patch, box), 1)
            for search, patch, box in zip(windows.search, windows.largest_patch, windows.box, strict=True)
        )
        return x, y, z
