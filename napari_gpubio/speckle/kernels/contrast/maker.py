"""Maps of frames that are in a GPU's memory: which kernels, with which specializations, and how they are launched."""

from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, processor_count
from napari_gpubio.core.kernels import kernel
from napari_gpubio.speckle.indices import decay_table
from napari_gpubio.speckle.kernels.contrast.problem import NO_INDEX, Maps, Recipe
from napari_gpubio.speckle.settings import EDGES

_HERE = Path(__file__).parent
_WINDOWS, _SEQUENCES, _DIRECT = (_HERE / f"{name}.cu" for name in ("windows", "sequences", "direct"))
_THREADS, _LANES, _QUAD = 128, 32, 4  # as in the kernels
_WARPS_PER_PROCESSOR = 32
_LEAST_STRIP, _MOST_STRIP = 8, 64  # rows that a warp does, but for those above its first one
_SEGMENTS = 16  # parts of a series of maps that are summed on their own
_MOST_BLOCKS = 65535  # along y
_PIXELS = {1: "unsigned char", 2: "unsigned short"}
_BITS = 32
IEEE = 0  # whether divisions and roots are rounded to nearest; a little slower than within 1 ulp of that
_I = np.int32


def defines_of(recipe: Recipe) -> tuple[str, ...]:
    """Return what all kernels are specialized for."""
    rule, s = recipe.rule, recipe.settings
    common = (f"KIND={int(rule.kind)}", f"MASK={int(s.mask)}", f"NOISE={int(recipe.noise.has_noise)}", f"IEEE={IEEE}")
    dark = int(recipe.dark is not None)
    if recipe.is_real:
        return (*common, f"REAL={'double' if recipe.dtype.itemsize == 8 else 'float'}", f"DARK={dark}")
    wide = int(recipe.settings.samples * recipe.largest**2 >= 2**_BITS)
    many = int(recipe.settings.samples * recipe.largest >= 2 ** (_BITS - 1))
    aligned = int(recipe.shape[1] % _QUAD == 0)
    pixel = f"PIXEL={_PIXELS[recipe.dtype.itemsize]}"
    whole = (*common, pixel, f"DARK={dark}", f"WIDE={wide}", f"MANY={many}", f"ALIGNED={aligned}")
    return whole if s.width == 1 else (*whole, f"RADIUS={s.width // 2}", f"EDGES={EDGES.index(s.edges)}")


class Maker:
    """Makes maps of frames in the memory of one GPU, on its current stream.

    Parameters
    ----------
    recipe
        What is done to them.
    device
        The GPU, which must be the current one when anything is done.
    """

    def __init__(self, recipe: Recipe, device: Device) -> None:
        import cupy

        self.recipe, self.device = recipe, device
        planes = recipe.floor, recipe.baseline_plane, decay_table().single
        self._planes = tuple(None if plane is None else cupy.asarray(plane) for plane in planes)
        self._dark = None if recipe.dark is None else cupy.asarray(recipe.dark)
        rule = recipe.rule
        count = np.float32(recipe.settings.samples)
        samples = _I(recipe.settings.samples), count / (count - np.float32(1))
        self._numbers = (*self._planes, *samples, rule.scale, rule.beta, rule.top, rule.gain, rule.low)
        self._defines = defines_of(recipe)
        self._kernels: dict[str, Any] = {}
        cupy.cuda.get_current_stream().synchronize()  # other streams do not wait for these copies

    def fill(self, frames: Any, maps: Maps) -> None:
        """Fill maps of device arrays; the first one is that of the first ``depth`` frames."""
        s = self.recipe.settings
        if self.recipe.is_real:
            self._fill_directly(frames, maps)
        elif s.mode == "spatial":
            self._fill_spatial(frames, maps)
        elif s.mode == "temporal":
            self._fill_temporal(frames, maps)
        else:
            self._fill_from_sums(self._sum(frames, len(maps.contrast)), maps)

    def _kernel(self, path: Path, name: str) -> Any:
        if name not in self._kernels:
            self._kernels[name] = kernel(path, name, defines=self._defines, strict=True)
        return self._kernels[name]

    @property
    def _level(self) -> tuple[Any, ...]:
        return _I(self.recipe.unit), _I(self.recipe.saturated)

    def _fill_spatial(self, frames: Any, maps: Maps) -> None:
        rows, width = self.recipe.shape
        grid, strip = self._grid(len(frames))
        arguments = (frames, self._dark, *self._level, _I(width), _I(rows), _I(len(frames)), strip)
        self._kernel(_WINDOWS, "fill_spatial")(grid, (_THREADS,), (*arguments, *self._numbers, *maps))

    def _fill_from_sums(self, sums: tuple[Any, ...], maps: Maps) -> None:
        rows, width = self.recipe.shape
        grid, strip = self._grid(len(maps.contrast))
        arguments = (*sums, _I(width), _I(rows), _I(len(maps.contrast)), strip)
        self._kernel(_WINDOWS, "fill_from_sums")(grid, (_THREADS,), (*arguments, *self._numbers, *maps))

    def _grid(self, frames: int) -> tuple[tuple[int], np.int32]:
        """Blocks, and the rows that a warp does: few where there is little work, for many more pay better."""
        rows, width = self.recipe.shape
        radius = self.recipe.settings.width // 2
        inner = (_LANES - 2 * -(-radius // _QUAD)) * _QUAD
        tiles = -(-width // inner)
        evenly = rows * tiles * frames // (_WARPS_PER_PROCESSOR * processor_count(self.device))
        strip = min(max(evenly, _LEAST_STRIP, 2 * radius), _MOST_STRIP)
        warps = tiles * -(-rows // strip) * frames
        return (-(-warps * _LANES // _THREADS),), _I(strip)

    def _series(self, frames: Any, maps: int) -> tuple[tuple[int, int], tuple[Any, ...]]:
        """Blocks and arguments of the kernels that go through frames."""
        s, pixels = self.recipe.settings, int(np.prod(self.recipe.shape))
        # a segment begins with the sum of a whole window, so it should make more maps than a window has frames
        segment = max(-(-maps // _SEGMENTS), min(s.depth, maps)) if s.step == 1 else -(-maps // _MOST_BLOCKS)
        blocks = -(-pixels // (_QUAD * _THREADS)), -(-maps // segment)
        numbers = map(_I, (pixels, maps, segment, s.depth, s.step))
        return blocks, (frames, self._dark, *self._level, *numbers)

    def _fill_temporal(self, frames: Any, maps: Maps) -> None:
        grid, arguments = self._series(frames, len(maps.contrast))
        self._kernel(_SEQUENCES, "fill_temporal")(grid, (_THREADS,), (*arguments, *self._numbers, *maps))

    def _sum(self, frames: Any, maps: int) -> tuple[Any, ...]:
        """Sums over frames for each map: samples, squares, saturated samples."""
        import cupy

        grid, arguments = self._series(frames, maps)
        shape = (maps, *self.recipe.shape)
        saturated = cupy.empty(shape, np.uint32) if self.recipe.settings.mask else None
        dark, wide = (f"{name}=1" in self._defines for name in ("DARK", "WIDE"))
        sums = (
            cupy.empty(shape, np.int64 if dark else np.uint32),
            cupy.empty(shape, np.uint64 if wide else np.uint32),
            saturated,
        )
        self._kernel(_SEQUENCES, "sum_frames")(grid, (_THREADS,), (*arguments, *sums))
        return sums

    def _fill_directly(self, frames: Any, maps: Maps) -> None:
        s, (rows, width) = self.recipe.settings, self.recipe.shape
        count = len(maps.contrast)
        numbers = map(
            _I, (self.recipe.saturated, width, rows, count, s.width // 2, EDGES.index(s.edges), s.depth, s.step)
        )
        arguments = (frames, self._dark, *numbers, *self._numbers, *maps)
        blocks = -(-count * rows * width // _THREADS)
        self._kernel(_DIRECT, "fill_directly")((blocks,), (_THREADS,), arguments)

    def bytes_per_map(self) -> int:
        """Device memory of one map, of its sums over frames, and of the frames that it needs besides the others'."""
        s, pixels = self.recipe.settings, int(np.prod(self.recipe.shape))
        maps = 4 + 4 * (self.recipe.rule.kind != NO_INDEX) + int(s.mask)
        sums = 0 if s.mode != "spatio-temporal" or self.recipe.is_real else 20
        return pixels * (maps + sums + s.step * self.recipe.dtype.itemsize)
