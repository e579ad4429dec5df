"""The patent's argument on today's chip: copies of the sub-histogram, a stream an organ, the texture unit.

All of it on the points that a host would sample: 2 x 2 mm in every contour of the seed case, 1.73 million, 100 bins.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import Array

from dose.plan import seed_case, with_values
from dose.resident import pinned
from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.core.space import apply_affine
from napari_gpubio.dose.structures.raster import inside

SOURCE = Path(__file__).with_suffix(".cu")
THREADS, BINS = 256, 100
COPIES = (1, 2, 4, 8, 16, 32)
PATENT_COPIES = 8  # the best on its GTX 650 Ti
POINTS = struct_layout(
    {"texture": np.uint64, "values": POINTER, "points": POINTER, "shape": (np.int32, 3), "inverse_width": np.float32}
)  # as struct Points in argument.cu
_BLOCKS_PER_PROCESSOR = 4
_STEP_MM, _SLICE_MM = 2.0, 3.0


@cache
def host_points() -> tuple[Array, ...]:
    """Of each organ, dose indices of its points, shape (N, 3), float32: the middles of cells of 2 x 2 mm."""
    dose, structures = seed_case()
    into = np.linalg.inv(dose.affine)
    found = []
    for structure in structures:
        points = np.concatenate([loop for plane in structure.planes for loop in plane.loops])
        low, high = points.min(axis=0), points.max(axis=0)
        counts = np.ceil((high - low) / _STEP_MM).astype(int)
        affine = structure.frame @ np.diag([_STEP_MM, _STEP_MM, _SLICE_MM, 1.0])
        first = [low[0] + _STEP_MM / 2, low[1] + _STEP_MM / 2, structure.planes[0].position_mm]
        affine[:3, 3] = apply_affine(structure.frame, first)
        mask = inside(structure, affine, (int(counts[0]), int(counts[1]), len(structure.planes)))
        found.append(apply_affine(into @ affine, np.argwhere(mask)).astype(np.float32))
    return tuple(found)


class Points:
    """Points and a dose on one GPU; for the kind of dose see `dose.plan.with_values`."""

    def __init__(self, kind: str, device: Device) -> None:
        import cupy

        self._parts = tuple(map(pinned, host_points()))
        values = np.ascontiguousarray(with_values(seed_case()[0], kind).values, np.float32)
        self._inverse_width = np.float32(BINS / values.max())
        self.count = sum(map(len, self._parts))
        with cupy.cuda.Device(device.indices[0]):
            self._values = cupy.asarray(values)
            self._points = cupy.asarray(np.concatenate(self._parts))
            self._texture = _texture(self._values)
            self._counts = cupy.zeros((len(self._parts), BINS), np.uint32)
            self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in self._parts]
            properties = cupy.cuda.runtime.getDeviceProperties(device.indices[0])
        self._blocks = _BLOCKS_PER_PROCESSOR * int(properties["multiProcessorCount"])

    def tally(self, *, copies: int = PATENT_COPIES, texture: bool = False, streams: bool = False) -> Any:
        """Count all organs, one launch for each, in a stream of its own or one after the other; device counts."""
        import cupy

        here = cupy.cuda.get_current_stream()
        self._counts.fill(0)
        here.synchronize()
        first = 0
        for organ, part in enumerate(self._parts):
            with self._streams[organ] if streams else here:
                self._count_part(organ, first, first + len(part), copies, texture)
            first += len(part)
        for stream in self._streams:
            stream.synchronize()
        return self._counts

    def _count_part(self, organ: int, first: int, end: int, copies: int, texture: bool) -> None:
        blocks = max(min(self._blocks, -(-(end - first) // THREADS)), 1)
        arguments = (self._struct(), np.int64(first), np.int64(end), self._counts[organ])
        _kernel("count_points", copies, texture)((blocks,), (THREADS,), arguments)

    def tally_from_host(self, *, streams: bool) -> Any:
        """The same with the points brought from page-locked memory before, each organ's in its stream or in one."""
        import cupy

        here, first = cupy.cuda.get_current_stream(), 0
        for organ, part in enumerate(self._parts):
            self._points[first : first + len(part)].set(part, stream=self._streams[organ] if streams else here)
            first += len(part)
        return self.tally(streams=streams)

    def doses(self, *, texture: bool) -> Any:
        """The dose at every point; device array."""
        import cupy

        found = cupy.empty(self.count, np.float32)
        arguments = (self._struct(), np.int64(self.count), found)
        _kernel("look_up_points", 1, texture)((-(-self.count // THREADS),), (THREADS,), arguments)
        return found

    def _struct(self) -> np.void:
        return struct(
            POINTS,
            texture=np.uint64(self._texture.ptr),
            values=self._values,
            points=self._points,
            shape=self._values.shape,
            inverse_width=self._inverse_width,
        )


def _kernel(name: str, copies: int, texture: bool) -> Any:
    defines = (f"COPIES={copies}", f"TEXTURE={int(texture)}", f"BINS={BINS}")
    return kernel(SOURCE, name, defines=defines, strict=True)


def _texture(values: Any) -> Any:
    """A texture with the hardware's linear filter; z is its fastest axis."""
    from cupy.cuda import runtime, texture

    kind = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    how = texture.TextureDescriptor(
        (runtime.cudaAddressModeClamp,) * 3, runtime.cudaFilterModeLinear, runtime.cudaReadModeElementType
    )
    nx, ny, nz = values.shape
    array = texture.CUDAarray(kind, nz, ny, nx)
    array.copy_from(values)
    return texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array), how)
