"""A run of the panel, read in the GUI thread: what is denoised, and how; a worker takes its steps."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np

from napari_gpubio.core.operations.layers import LayerSource
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.kernels.anlm.problem import Triple, make_windows
from napari_gpubio.denoise.napari_io import Array, LayerVolume, Part
from napari_gpubio.denoise.noise import SeriesNoise, is_across_volumes
from napari_gpubio.denoise.operations import Denoise, DenoiseFluence
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.denoise.values import from_log10, mean_of_halves, to_log10
from napari_gpubio.denoise.volumes import (
    DenoisedVolume,
    Mask,
    Selection,
    denoise_volume_steps,
    linear_values,
    noise_of_whole,
)

Noise = SeriesNoise | Volume | float | None
# Largest scales around a voxel: what lies farther away changes fluence of 100 000 photons by < 2 %.
_FLUENCE_REACH = 2.5


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """Everything that one run needs: an operation whose inputs are still layers.

    Parameters
    ----------
    image
        How the image is shown.
    verb, fields
        The operation, and its fields but for the inputs.
    sources
        Its inputs, by the names of their fields.
    device
        As the API takes it.
    """

    image: LayerVolume
    verb: type[Denoise | DenoiseFluence]
    fields: dict[str, Any]
    sources: dict[str, LayerSource]
    device: str

    def operation(self) -> Operation:
        """Return the operation of the run; where its inputs come from is looked for, which takes a moment."""
        inputs: dict[str, Any] = {name: one.output() for name, one in self.sources.items()}
        return self.verb(**inputs, **self.fields)

    @property
    def settings(self) -> Any:
        """Those of the filter."""
        return self.fields["settings"]

    @property
    def partner(self) -> str:
        """Name of the layer that is the other half of the image; empty if the image is the whole."""
        return self.sources["second"].volume.name if "second" in self.sources else ""

    @property
    def has_halves(self) -> bool:
        """Whether there are two halves: the image and another layer, or both beside the image."""
        carries = self.verb is DenoiseFluence and self.sources["image"].volume.halves is not None
        return carries or "second" in self.sources

    @property
    def selection(self) -> Selection:
        """Which values are denoised."""
        chosen = {name: self.fields.get(name) for name in ("volumes", "log10")}
        return Selection(mask=self._volumes.get("mask"), skip_gaps=self.fields.get("skip_gaps", False), **chosen)

    @property
    def _volumes(self) -> dict[str, Volume]:
        return {name: one.volume for name, one in self.sources.items()}

    def steps(self, stop: threading.Event) -> Generator[Step, None, DenoisedVolume]:
        """Denoise what there is, beside all operations; for parts of an image."""
        given = {name: one for name, one in self._volumes.items() if name not in ("image", "mask")}
        noise = self.fields.get("sigma", given.pop("noise", None))
        image = self._volumes["image"]
        known: dict[str, Any] = {"noise": noise, **given, "device": self.device, "stop": stop}
        return without_previews(denoise_volume_steps(image, self.settings, self.selection, **known))

    # -- parts ----------------------------------------------------------------------------------------------------

    def cut(self, part: Part) -> "Request":
        """Return the same for a part of the image."""
        sources = {name: LayerSource(_cut(one.volume, part), None) for name, one in self.sources.items()}
        fields = {**self.fields, "volumes": None}
        return dataclasses.replace(self, sources=sources, fields=fields)

    def linear(self) -> tuple[Array, Mask | None]:
        """Values and mask as the filter takes them."""
        return linear_values(self._volumes["image"], self.selection)

    def with_values(self, values: Array, mask: Mask | None) -> "Request":
        """Return the same with other values, which are linear, and another mask."""
        image = self._volumes["image"]
        sources = {name: one for name, one in self.sources.items() if name != "mask"}
        sources["image"] = LayerSource(image.like(values), None)
        if mask is not None:
            sources["mask"] = LayerSource(image.like(mask.astype(np.uint8)), None)
        return dataclasses.replace(self, sources=sources, fields={**self.fields, "log10": False, "skip_gaps": False})

    def unchanged(self) -> Array | None:
        """Return what is denoised, as the layer shows it, where there is nothing to denoise; else None."""
        image, second, mask = (self._volumes.get(name) for name in ("image", "second", "mask"))
        assert image is not None
        halves = image.halves if self.has_halves else None
        both = [image.array, *([] if second is None else [second.array]), *([] if halves is None else halves)]
        if all(map(np.any, both)) and (mask is None or mask.array.any()):
            return None
        if second is None or second.array.shape != image.array.shape:
            return image.array
        if not self.fields["log10"]:
            return mean_of_halves(image.array, second.array)
        return to_log10(mean_of_halves(from_log10(image.array), from_log10(second.array)))

    # -- noise ----------------------------------------------------------------------------------------------------

    @property
    def is_across_volumes(self) -> bool:
        """Whether the noise is one number that all volumes of a series are needed for."""
        return self._is_open and is_across_volumes(self.settings, self.image.shape)

    @property
    def needs_noise(self) -> bool:
        """Whether there is a noise to be found in more than a part of the image."""
        return self._is_open and (self.is_across_volumes or self.settings.noise_from == "detail")

    @property
    def _is_open(self) -> bool:
        is_known = "noise" in self.sources or self.fields.get("sigma") is not None
        return isinstance(self.settings, DenoiseSettings) and not is_known

    def find_noise(self, volume: int) -> Noise:
        """Find the noise that a run would, of one of the volumes; None if patches tell it."""
        return noise_of_whole(self._volumes["image"], self.settings, self.selection, volume)

    def with_noise(self, noise: Noise) -> "Request":
        """Return the same with a noise that is known, or with none but that of patches."""
        if isinstance(noise, Volume):
            return dataclasses.replace(self, sources={**self.sources, "noise": LayerSource(noise, None)})
        known = {"sigma": noise}
        if noise is None:
            known = {"settings": dataclasses.replace(self.settings, noise_from="patches")}
        return dataclasses.replace(self, fields={**self.fields, **known})

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


def without_previews(steps: Generator[Step, None, Any]) -> Generator[Step, None, Any]:
    """Take the same steps, of which the GUI thread makes no previews meanwhile."""
    try:
        while True:
            yield next(steps).showing(None)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def _cut(volume: Volume, part: Part) -> Volume:
    """A part of a volume, with what it carries."""

    def cut(array: Array) -> Array:
        where = part.box if array.ndim == 3 else (*part.box, part.volumes or slice(None))
        return array[where].transpose(*part.axes, *range(3, array.ndim))

    return dataclasses.replace(
        volume,
        array=cut(volume.array),
        affine=volume.affine[:, [*part.axes, 3]],
        halves=None if volume.halves is None else np.stack([cut(half) for half in volume.halves]),
        guide=None if volume.guide is None else cut(volume.guide),
    )
