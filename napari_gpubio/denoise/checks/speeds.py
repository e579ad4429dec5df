"""What is timed: the whole call, from the volume to the denoised volume on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Speed
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.run import denoise
from napari_gpubio.denoise.samples import noisy_head
from napari_gpubio.denoise.settings import DenoiseSettings

_LARGE, _SLAB = 256, 32  # a CPU does a slab of the large volume, so that a bench takes seconds


def head_volume(*shape: int) -> npt.NDArray[np.float32]:
    """Make the noisy sample head as large as one likes: mirrored again and again beyond its borders."""
    head: Any = noisy_head().noisy
    missing = [max(0, n - size) for n, size in zip(shape, head.shape, strict=True)]
    padded = np.pad(head, [(0, n) for n in missing], mode="symmetric")
    return np.ascontiguousarray(padded[tuple(slice(n) for n in shape)], np.float32)


def _speed(name: str, shape: tuple[int, int, int], on_cpu: tuple[int, int, int], **options: Any) -> Speed:
    def prepare(device: Device) -> Callable[[], float]:
        volume, settings = head_volume(*(shape if device.is_gpu else on_cpu)), DenoiseSettings(**options)
        return lambda: float(denoise(volume, settings, device=device).image.size)

    return Speed(name=name, unit="voxels", prepare=prepare)


SPEEDS = (
    _speed("anlm, 100^3", (100,) * 3, (100,) * 3),
    _speed("anlm, 256^3 (on a CPU 256 x 256 x 32)", (_LARGE,) * 3, (_LARGE, _LARGE, _SLAB)),
    _speed("anlm, Rician, 100^3", (100,) * 3, (100,) * 3, noise_model="rician", cutoff=3.0, center="largest"),
)
