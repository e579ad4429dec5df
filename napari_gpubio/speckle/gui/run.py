"""A run of a whole stack: an operation whose inputs are layers, read in the GUI thread; a worker takes its steps."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations import runs
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.reading import without_notes
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle.gui.panel_layers import frames_of, is_raw_stack
from napari_gpubio.speckle.io import open_frames
from napari_gpubio.speckle.mesi.recording import FrameFit
from napari_gpubio.speckle.model import ContrastMaps, Recording
from napari_gpubio.speckle.opening import HeldFrames, HeldRegions, OpenFrames
from napari_gpubio.speckle.operations import Contrast, MeasureDark, Mesi, Register

Array = npt.NDArray[Any]
MAX_COMPARED = 256 << 20  # bytes; of a longer recording only some frames are compared
_COMPARED_FRAMES = 64


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FramesSource:
    """Frames as a layer shows them, and the file that they were read from, as far as that is known."""

    frames: Any
    name: str
    path: Path | None

    @classmethod
    def of(cls, layer: Any) -> "FramesSource":
        """Read where the frames of a layer come from."""
        path = carried(layer, "path") or layer.source.path
        return cls(frames_of(layer), layer.name, None if path is None else Path(path))

    def output(self, store: Store = STORE) -> Output[Recording]:
        """Return their file if it holds the same, else the frames, which are copied; it takes a moment to compare."""
        if self.is_in_file():
            assert self.path is not None
            return OpenFrames.at(self.path).output()
        return HeldFrames.of(self.frames, self.name, store).output()

    def is_in_file(self) -> bool:
        """Whether the file holds the same frames."""
        if self.path is None or not self.path.exists():
            return False
        try:
            with without_notes():  # what was noted when the layer was read
                return self.is_same(open_frames(self.path))
        except InvalidInput:
            return False

    def is_same(self, stored: Any) -> bool:
        """Whether others are the same frames; of a large recording, 64 from first to last are compared."""
        if tuple(stored.shape) != tuple(self.frames.shape) or stored.dtype != self.frames.dtype:
            return False
        return all(np.array_equal(stored[n], np.asarray(self.frames[n])) for n in _compared(stored))


def finder(layer: Any) -> Callable[[], Output[Recording]]:
    """Read a layer of frames; see `napari_gpubio.core.operations.layer_sources.register_finder`."""
    return FramesSource.of(layer).output


def layer_of_frames(viewer: Any, wanted: Output[Recording] | None) -> Any | None:
    """Return the layer of a viewer that shows frames, if there is one; of a file it takes over the path."""
    of = None if wanted is None else wanted.of
    for layer in filter(is_raw_stack, viewer.layers):
        source = FramesSource.of(layer)
        if isinstance(of, HeldFrames) and source.is_same(STORE.array(of.array)):
            return layer
        if isinstance(of, OpenFrames) and dataclasses.replace(source, path=Path(of.file.path)).is_in_file():
            layer.metadata[KEY] = {**layer.metadata.get(KEY, {}), "path": of.file.path}
            return layer
    return None


def _compared(stored: Any) -> Iterator[Any]:
    """The frames that are compared."""
    count = len(stored)
    if stored.ndim == 2:
        yield slice(None)
    elif stored.nbytes <= MAX_COMPARED or count <= _COMPARED_FRAMES:
        yield from range(count)
    else:
        yield from (int(place) for place in np.linspace(0, count - 1, _COMPARED_FRAMES).round())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StackRun(ShortRepr):
    """Everything that a run needs, as it was when it began: an operation, its fields, and where its inputs come from.

    ``within`` are the pixels of the static target by the name of the layer that marks them, or nothing for all;
    ``place`` is scale, translation and units of the layer of the frames.
    """

    verb: type[Contrast] | type[Mesi]
    fields: dict[str, Any]
    sources: dict[str, FramesSource]
    within: dict[str, Array] = dataclasses.field(default_factory=dict)
    registers: bool = False
    place: dict[str, tuple[Any, ...]]
    rate_hz: float
    exposure_ms: float
    baseline_maps: int
    device: str
    shows_errors: bool = False

    @property
    def name(self) -> str:
        """Name of the layer of the frames."""
        return self.sources["recording"].name

    def operation(self, store: Store = STORE) -> Operation:
        """Return the operation of the run; where its inputs come from is looked for, which takes a moment."""
        inputs: dict[str, Any] = {name: one.output(store) for name, one in self.sources.items()}
        if self.registers and len(self.sources["recording"].frames.shape) > 2:
            inputs["recording"] = Register(recording=inputs["recording"])
        if "dark" in inputs:
            inputs["dark"] = MeasureDark(recording=inputs["dark"])
        if self.within:
            inputs["within"] = HeldRegions.of(self.within, store)
        return self.verb(**inputs, **self.fields)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StackResult:
    """What a run made, and the operation that makes the same again."""

    run: StackRun
    operation: Operation
    made: ContrastMaps | FrameFit

    @property
    def fit(self) -> FrameFit | None:
        """The multi-exposure fit, or None."""
        return self.made if isinstance(self.made, FrameFit) else None

    @property
    def maps(self) -> ContrastMaps:
        """Maps of contrast of every frame."""
        return self.made.maps if isinstance(self.made, FrameFit) else self.made

    @property
    def times_s(self) -> Array:
        """Time of each map: that of the last frame of its window."""
        s = self.maps.settings
        return np.asarray((np.arange(len(self.maps)) * s.step + s.depth - 1) / self.run.rate_hz)


def run_steps(run: StackRun, stop: threading.Event) -> Generator[Step, None, StackResult | None]:
    """Do a run; None if it was stopped before there was anything to show."""
    yield Step(0, 1, "reading the frames")
    operation = run.operation()
    made = yield from runs.run_steps(operation, device=run.device, stop=stop)
    return None if made is None else StackResult(run=run, operation=operation, made=made)
