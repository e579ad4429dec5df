"""Contrast in CUDA, the counterpart of ``cpu.py``; kernels: ``windows.cu``, ``sequences.cu`` and ``direct.cu``."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, processor_count
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.speckle.kernels.contrast.problem import (
    BATCH_BYTES,
    ICT,
    Array,
    ContrastRecipe,
    Maps,
    Problem,
)
from napari_gpubio.speckle.kernels.visibility import decay_table
from napari_gpubio.speckle.settings import EDGES, Spatial, SpatioTemporal, Temporal

_HERE = Path(__file__).parent
_WINDOWS, _SEQUENCES, _DIRECT = (_HERE / f"{name}.cu" for name in ("windows", "sequences", "direct"))
_THREADS, _WARP, _QUAD = 128, 32, 4  # as in the kernels
_WARPS_PER_PROCESSOR = 32
_MIN_STRIP, _MAX_STRIP = 8, 64  # rows of a warp, without those above its first one
_SEGMENTS = 16  # parts of a series of maps that are summed separately
_MAX_BLOCKS = 65535  # along y
_PIXELS = {1: "unsigned char", 2: "unsigned short"}
_BITS = 32
IEEE = 0  # whether divisions and roots are rounded to nearest, which is slower; else they are within 1 ulp of it
_I = np.int32
_STREAMS = 2  # batches in flight: one is copied while another is computed


def _ints(names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), np.int32)


# The structs of the .cu files, by their names there.
STRUCTS = {
    "Stack": struct_layout({"frames": POINTER, "dark": POINTER, **_ints("unit level")}),
    "Grid": struct_layout(_ints("width rows count strip")),
    "Series": struct_layout(_ints("pixels maps segment depth step")),
    "SumPlanes": struct_layout({"s": POINTER, "q": POINTER, "saturated": POINTER}),
    "RealStack": struct_layout(
        {"values": POINTER, "dark": POINTER, **_ints("saturation width rows maps radius edges depth step")}
    ),
    "Finishing": struct_layout(
        {
            **dict.fromkeys(("floor", "baseline", "table", "contrast", "index", "mask"), POINTER),
            "samples": np.int32,
            **dict.fromkeys(("unbiased", "scale", "beta", "top", "gain", "low"), np.float32),
        }
    ),
}


def defines_of(recipe: ContrastRecipe) -> tuple[str, ...]:
    """Return the defines that all kernels are compiled with."""
    rule, s = recipe.rule, recipe.settings
    common = (
        f"KIND={int(rule.kind)}",
        f"MASK={int(s.has_mask)}",
        f"NOISE={int(recipe.noise.has_noise)}",
        f"IEEE={IEEE}",
    )
    dark = int(recipe.dark is not None)
    if recipe.is_real:
        return (*common, f"REAL={'double' if recipe.dtype.itemsize == 8 else 'float'}", f"DARK={dark}")
    wide = int(recipe.settings.samples * recipe.largest**2 >= 2**_BITS)
    many = int(recipe.settings.samples * recipe.largest >= 2 ** (_BITS - 1))
    aligned = int(recipe.shape[1] % _QUAD == 0)
    pixel = f"PIXEL={_PIXELS[recipe.dtype.itemsize]}"
    whole = (*common, pixel, f"DARK={dark}", f"WIDE={wide}", f"MANY={many}", f"ALIGNED={aligned}")
    return whole if s.width == 1 else (*whole, f"RADIUS={s.width // 2}", f"EDGES={EDGES.index(s.mode.edges)}")


class Maker:
    """Computes maps of frames in the memory of one GPU, which must be the current one, on its current stream."""

    def __init__(self, recipe: ContrastRecipe, device: Device) -> None:
        import cupy

        self.recipe, self.device = recipe, device
        table = decay_table().single if recipe.rule.kind == ICT else None
        planes = recipe.floor, recipe.baseline_plane, table
        self._planes = tuple(None if plane is None else cupy.asarray(plane) for plane in planes)
        self._dark = None if recipe.dark is None else cupy.asarray(recipe.dark)
        rule, count = recipe.rule, np.float32(recipe.settings.samples)
        self._numbers = {
            "samples": recipe.settings.samples,
            "unbiased": count / (count - np.float32(1)),
            **{name: getattr(rule, name) for name in ("scale", "beta", "top", "gain", "low")},
        }
        self._defines = defines_of(recipe)
        self._kernels: dict[str, Any] = {}
        cupy.cuda.get_current_stream().synchronize()  # other streams do not wait for these copies

    def fill(self, frames: Any, maps: Maps) -> None:
        """Fill maps of frames on the device; the first map belongs to the first ``depth`` frames."""
        s = self.recipe.settings
        if self.recipe.is_real:
            self._fill_directly(frames, maps)
        elif isinstance(s.mode, Spatial):
            self._fill_spatial(frames, maps)
        elif isinstance(s.mode, Temporal):
            self._fill_temporal(frames, maps)
        else:
            self._fill_from_sums(frames, maps)

    def _launch(self, path: Path, name: str, grid: tuple[int, ...], *structs: np.void) -> None:
        if name not in self._kernels:
            self._kernels[name] = kernel(path, name, defines=self._defines, strict=True)
        self._kernels[name](grid, (_THREADS,), structs)

    def _stack(self, frames: Any) -> np.void:
        level, unit = self.recipe.saturated, self.recipe.unit
        return struct(STRUCTS["Stack"], frames=frames, dark=self._dark, unit=unit, level=level)

    def _finishing(self, maps: Maps) -> np.void:
        floor, baseline, table = self._planes
        return struct(
            STRUCTS["Finishing"], floor=floor, baseline=baseline, table=table, contrast=maps.contrast,
            index=maps.indices, mask=maps.mask, **self._numbers,
        )  # fmt: skip

    def _fill_spatial(self, frames: Any, maps: Maps) -> None:
        blocks, grid = self._grid(len(frames))
        self._launch(_WINDOWS, "fill_spatial", blocks, self._stack(frames), grid, self._finishing(maps))

    def _fill_from_sums(self, frames: Any, maps: Maps) -> None:
        sums = self._sum(frames, len(maps.contrast))
        planes = struct(STRUCTS["SumPlanes"], **sums)
        blocks, grid = self._grid(len(maps.contrast))
        self._launch(_WINDOWS, "fill_from_sums", blocks, planes, grid, self._finishing(maps))

    def _grid(self, frames: int) -> tuple[tuple[int], np.void]:
        """Return blocks and the rows of a warp: few rows where there is little work, to fill the GPU."""
        rows, width = self.recipe.shape
        radius = self.recipe.settings.width // 2
        inner = (_WARP - 2 * -(-radius // _QUAD)) * _QUAD
        tiles = -(-width // inner)
        evenly = rows * tiles * frames // (_WARPS_PER_PROCESSOR * processor_count(self.device))
        strip = min(max(evenly, _MIN_STRIP, 2 * radius), _MAX_STRIP)
        warps = tiles * -(-rows // strip) * frames
        grid = struct(STRUCTS["Grid"], width=width, rows=rows, count=frames, strip=strip)
        return (-(-warps * _WARP // _THREADS),), grid

    def _series(self, maps: int) -> tuple[tuple[int, int], np.void]:
        """Return blocks and numbers of the kernels that go through frames."""
        s, pixels = self.recipe.settings, int(np.prod(self.recipe.shape))
        # a segment starts with the sum of a whole window, so it should have more maps than a window has frames
        segment = max(-(-maps // _SEGMENTS), min(s.depth, maps)) if s.step == 1 else -(-maps // _MAX_BLOCKS)
        blocks = -(-pixels // (_QUAD * _THREADS)), -(-maps // segment)
        return blocks, struct(STRUCTS["Series"], pixels=pixels, maps=maps, segment=segment, depth=s.depth, step=s.step)

    def _fill_temporal(self, frames: Any, maps: Maps) -> None:
        blocks, series = self._series(len(maps.contrast))
        self._launch(_SEQUENCES, "fill_temporal", blocks, self._stack(frames), series, self._finishing(maps))

    def _sum(self, frames: Any, maps: int) -> dict[str, Any]:
        """Return sums over frames for each map: samples, squares, saturated samples."""
        import cupy

        blocks, series = self._series(maps)
        shape = (maps, *self.recipe.shape)
        dark, wide = (f"{name}=1" in self._defines for name in ("DARK", "WIDE"))
        sums = {
            "s": cupy.empty(shape, np.int64 if dark else np.uint32),
            "q": cupy.empty(shape, np.uint64 if wide else np.uint32),
            "saturated": cupy.empty(shape, np.uint32) if self.recipe.settings.has_mask else None,
        }
        planes = struct(STRUCTS["SumPlanes"], **sums)
        self._launch(_SEQUENCES, "sum_frames", blocks, self._stack(frames), series, planes)
        return sums

    def _fill_directly(self, frames: Any, maps: Maps) -> None:
        s, (rows, width) = self.recipe.settings, self.recipe.shape
        count = len(maps.contrast)
        stack = struct(
            STRUCTS["RealStack"], values=frames, dark=self._dark, saturation=self.recipe.saturated, width=width,
            rows=rows, maps=count, radius=s.width // 2, edges=EDGES.index(s.mode.edges), depth=s.depth, step=s.step,
        )  # fmt: skip
        self._launch(_DIRECT, "fill_directly", (-(-count * rows * width // _THREADS),), stack, self._finishing(maps))


def sum_bytes(recipe: ContrastRecipe) -> int:
    """Return the bytes of a pixel's sums over frames: of samples, squares, and saturated samples."""
    dark, wide = (f"{name}=1" in defines_of(recipe) for name in ("DARK", "WIDE"))
    return (8 if dark else 4) + (8 if wide else 4) + 4 * recipe.settings.has_mask


def batches_of(recipe: ContrastRecipe, items: int) -> tuple[int, int]:
    """Return how many maps are computed together, and how many batches of them are in flight."""
    s, pixels = recipe.settings, int(np.prod(recipe.shape))
    sums = 0 if not isinstance(s.mode, SpatioTemporal) or recipe.is_real else 20
    each = recipe.bytes_of_map + pixels * (sums + s.step * recipe.dtype.itemsize)
    most = min(items, max(1, BATCH_BYTES // each))
    return most, min(_STREAMS, -(-items // most))


class MapBuffer(NamedTuple):
    """Maps in one piece of memory, so that one copy moves them all."""

    whole: Any
    maps: Maps


def map_buffer(whole: Any, recipe: ContrastRecipe, count: int) -> MapBuffer:
    """Lay maps out in bytes of host or device memory."""
    pixels = count * int(np.prod(recipe.shape))
    parts: list[Any] = []
    begin = 0
    for size, present in ((4, True), (4, recipe.settings.has_index), (1, recipe.settings.has_mask)):
        end = begin + size * pixels * present
        kind = np.float32 if size == 4 else np.uint8
        parts.append(whole[begin:end].view(kind).reshape(count, *recipe.shape) if present else None)
        begin = end
    contrast, indices, mask = parts
    return MapBuffer(whole, Maps(contrast, indices, mask))


def bytes_of(recipe: ContrastRecipe, count: int) -> int:
    """Return the bytes of a number of maps."""
    return count * recipe.bytes_of_map


def pinned(count: int, dtype: Any = np.uint8) -> Array:
    """Allocate page-locked host memory, for asynchronous copies."""
    import cupy

    dtype = np.dtype(dtype)
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(count * dtype.itemsize), dtype, count)


class _Batch:
    """A stream with its own memory for a batch of maps."""

    def __init__(self, problem: Problem, most: int) -> None:
        import cupy

        recipe = problem.recipe
        s = recipe.settings
        self._problem, self._recipe, self._most = problem, recipe, most
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._frames = cupy.empty(((most - 1) * s.step + s.depth, *recipe.shape), recipe.dtype)
        self._device, self._host = cupy.empty(bytes_of(recipe, most), np.uint8), pinned(bytes_of(recipe, most))
        self._begun: tuple[int, int] | None = None  # number of the first map, and of all

    def begin(self, maker: Maker, frames: Array, first: int, count: int) -> None:
        """Start to copy and process frames; `end` waits for it and hands the maps over."""
        self._begun = first, count
        size = bytes_of(self._recipe, count)
        with self._stream:
            on_device = self._frames[: len(frames)]
            on_device.set(frames, self._stream)
            maker.fill(on_device, map_buffer(self._device[:size], self._recipe, count).maps)
            self._device[:size].get(self._stream, "C", self._host[:size], False)

    def end(self) -> None:
        """Wait for the batch, if one was started."""
        if self._begun is None:
            return
        (first, count), self._begun = self._begun, None
        self._stream.synchronize()
        made = map_buffer(self._host[: bytes_of(self._recipe, count)], self._recipe, count).maps
        self._problem.put(first, made)


class Run(drivers.Run):
    """A stack on one GPU; items are maps."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        super().__init__(problem, device=device)
        with device.current():
            self._maker: Any = Maker(problem.recipe, device)
            self._most, batches = batches_of(problem.recipe, problem.items)
            self._batches = [_Batch(problem, self._most) for _ in range(batches)]

    def advance(self, start: int, count: int) -> None:
        """Compute the maps ``start`` to ``start + count - 1``."""
        p = self._problem
        with self.device.current():
            for number, first in enumerate(range(start, start + count, self._most)):
                maps = min(self._most, start + count - first)
                batch = self._batches[number % len(self._batches)]
                frames = p.load(first, maps)
                batch.end()
                batch.begin(self._maker, frames, first, maps)
            for batch in self._batches:
                batch.end()


class Live:
    """Frames of a camera, one after another, on one GPU; see `napari_gpubio.speckle.ContrastStream`."""

    def __init__(self, recipe: ContrastRecipe, *, device: Device, results: int) -> None:
        import cupy

        self.device, self._recipe, self._count = device, recipe, 0
        pixels, depth = int(np.prod(recipe.shape)), recipe.settings.depth
        with device.current():
            self._maker: Any = Maker(recipe, device)
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._ring = cupy.empty((depth, *recipe.shape), recipe.dtype)
            self._made: Any = map_buffer(cupy.empty(bytes_of(recipe, 1), np.uint8), recipe, 1)
            self._slots = [pinned(pixels, recipe.dtype).reshape(recipe.shape) for _ in range(2)]
            self._results = [map_buffer(pinned(bytes_of(recipe, 1)), recipe, 1) for _ in range(results)]

    def slot(self) -> Array:
        """Return page-locked memory for the next frame."""
        return self._slots[self._count % len(self._slots)]

    def push(self, frame: Array, *, make_maps: bool) -> Maps | None:
        """Process a frame; compute and return maps if ``make_maps``."""
        slot, place = self.slot(), self._count % len(self._ring)
        if frame is not slot:
            np.copyto(slot, frame)
        result = self._results[self._count % len(self._results)]
        with self.device.current(), self._stream:
            self._ring[place].set(slot, self._stream)
            if make_maps:
                self._maker.fill(self._ring, self._made.maps)
                self._made.whole.get(self._stream, "C", result.whole, False)
            self._stream.synchronize()
        self._count += 1
        return result.maps if make_maps else None

    def forget(self) -> None:
        """Start a new window of frames; the ring is filled again before it is used."""
        self._count = 0

    def close(self) -> None:
        """Free the device arrays."""
        self._ring = self._made = self._maker = None
