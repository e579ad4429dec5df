"""Contrast on any device: of whole stacks, and of a camera's frames one after another."""

import dataclasses
import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device, choose_device, free_memory_bytes
from napari_gpubio.core.drivers import Runs, how_made, open_run
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.speckle.kernels.contrast.memory import memory_of_maps
from napari_gpubio.speckle.kernels.contrast.problem import ContrastRecipe, Maps, Problem, make_problem
from napari_gpubio.speckle.model import (
    ContrastMaps,
    FrameStack,
    MapMean,
    MapTaker,
    as_array,
    checked_values,
    kernel_dtype,
)
from napari_gpubio.speckle.registration import ClearingTaker, Registered
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    DarkNoise,
    Noise,
    NoiseModel,
    NoMask,
    RelativeFlow,
    Squared,
)
from napari_gpubio.speckle.stored import part_of

Array = npt.NDArray[Any]
_MAX_NAMED = 6  # black frames
_MAX_SATURATED_SHARE = 0.001  # without a note
_FULL_SCALES = {float((2**bits - 1) << shift) for bits in (8, 10, 12, 14, 16) for shift in {0, 16 - bits}} - {255 << 8}
_MESSAGE = "speckle contrast"


def contrast_steps(
    frames: Any,
    settings: ContrastSettings | None = None,
    *,
    noise: Noise | None = None,
    baseline: npt.ArrayLike | None = None,
    device: str | Device = "auto",
    into: Sequence[MapTaker] = (),
    stop: threading.Event | None = None,
) -> Generator[Step, None, ContrastMaps]:
    """Compute speckle contrast K = σ/⟨I⟩ of a frame or a stack, and an index of flow, step by step.

    Sums over windows are integers, exact for frames of 8 to 16 bits, so the maps do not depend on the number of
    threads, chunks or GPUs. Floating-point frames are processed in double precision.

    Parameters
    ----------
    frames
        One frame (Y, X) or a stack (T, Y, X): a NumPy, dask or zarr array, a memory map, a file's (`io.open_frames`),
        or a list of frames, read a few frames at a time; or those of `register`, whose maps are cleared where a window
        reaches beyond one of the frames.
    settings
        See `ContrastSettings`.
    noise
        Dark level, gain and noise of the camera, which are subtracted; see `NoiseModel`.
    baseline
        K² of the baseline, one number or a map (Y, X), for `RelativeFlow`; by default that of the frames that it names.
    device
        See `napari_gpubio.core.device.choose_device`.
    into
        What takes the maps as they are computed, a few at a time, such as `io.MapFile` and `regions.CurveTaker`. They
        are then not kept, and the result has none of them, shape (0, Y, X), but all that is said of them: a stack of
        any length needs the memory of a few maps, and of a window of frames.
    stop
        Set it to stop early; the other maps are then NaN, or not handed on, and ``complete`` is False.

    Raises
    ------
    InvalidInput
        If the frames cannot be used, the window does not fit, its sums would not be exact, or there is too little
        memory.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.speckle import ContrastSettings, Spatial, contrast
    >>> frame = np.zeros((9, 9), np.uint16)
    >>> frame[4, 4] = 1000
    >>> maps = contrast(frame, ContrastSettings(mode=Spatial(window=5)), device="cpu")
    >>> float(maps.contrast[4, 4])  # one bright pixel among N: K is the root of N
    5.0
    """
    settings, clock = settings or ContrastSettings(), RunClock()
    stack = FrameStack(frames)
    noise = noise or NoiseModel()
    if isinstance(settings.index, RelativeFlow):
        baseline = yield from _baseline_steps(frames, settings, settings.index, noise, baseline, device, stop)
    if isinstance(frames, Registered):
        into = [ClearingTaker(frames, into)] if into else ()
    _check_memory(stack, settings, noise, keeps=not into)
    chosen, handed = choose_device(device), threading.Lock()

    def hand_on(first: int, maps: Maps) -> None:
        made = _made(problem.recipe, *maps)
        with handed:  # each GPU has a thread
            for taker in into:
                taker.take(first, made)

    problem = make_problem(stack, settings, noise, baseline, hand_on if into else None)
    with Runs(problem, chosen) as runs:
        yield from runs.steps(_MESSAGE, stop, None if into else lambda: _newest(problem))
    maps = _maps(problem, chosen, clock.seconds)
    if isinstance(frames, Registered):
        frames.clear_outside(maps)
        maps = dataclasses.replace(maps, notes=(*maps.notes, *frames.notes))
    for taker in into:
        taker.finish(maps, int(np.count_nonzero(problem.reached)))  # those that a stopped run has come to, without gaps
    return maps


contrast = driven(contrast_steps)


def needed_memory(
    frames: Any,
    settings: ContrastSettings | None = None,
    *,
    noise: Noise | None = None,
    device: str | Device = "auto",
    keeps: bool = True,
) -> Memory:
    """Memory that `napari_gpubio.speckle.contrast` takes besides the frames; see it for the arguments.

    Parameters
    ----------
    keeps
        Whether the maps are kept; False where they are handed on ``into`` files.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import speckle
    >>> memory = speckle.needed_memory(np.zeros((5, 64, 64), np.uint16), device="cpu")
    >>> memory.results == 5 * 64 * 64 * 9  # contrast, index and mask
    True
    """
    settings, stack, chosen = settings or ContrastSettings(), FrameStack(frames), choose_device(device)
    baseline = 1.0 if isinstance(settings.index, RelativeFlow) else None
    recipe = ContrastRecipe(
        settings=settings, noise=noise or NoiseModel(), shape=stack.shape, dtype=stack.dtype, baseline=baseline
    )
    return memory_of_maps(recipe, settings.count(stack.count), stack.window_bytes, chosen, keeps=keeps)


def baseline_k2_steps(
    frames: Any,
    settings: ContrastSettings | None = None,
    *,
    noise: Noise | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, npt.NDArray[np.float64]]:
    """Average K² over the maps of a baseline, step by step; see `contrast_steps` for the arguments.

    K² is averaged, not an index, whose mean is biased upward by noise.

    Returns
    -------
    The mean over all maps that have a value at a pixel, shape (Y, X); NaN where none has.
    """
    squared = dataclasses.replace(settings or ContrastSettings(), index=Squared(), mask=NoMask())
    mean, chosen = MapMean(), choose_device(device)
    one = chosen.first  # sums in double precision depend on the order
    yield from contrast_steps(frames, squared, noise=noise, device=one, into=[mean], stop=stop)
    return mean.mean() if mean.count else np.full(FrameStack(frames).shape, np.nan)


baseline_k2 = driven(baseline_k2_steps)


def _baseline_steps(
    frames: Any,
    settings: ContrastSettings,
    index: RelativeFlow,
    noise: Noise,
    given: npt.ArrayLike | None,
    device: str | Device,
    stop: threading.Event | None,
) -> Generator[Step, None, npt.ArrayLike]:
    """K² of the frames that count as a baseline, unless it is given."""
    if given is not None:
        if index.baseline is not None:
            raise InvalidInput(f"baseline is {index.baseline} in the settings, and its K² is given; leave one out")
        return given
    inside = as_array(frames)
    count = len(inside) if len(inside.shape) > 2 else 1
    first, last = index.baseline or (0, count - 1)
    if last >= count:
        raise InvalidInput(f"baseline is {first} {last} and there are {count} frames; give frames that are there")
    some = inside if count == 1 else part_of(inside, first, last + 1)
    return (yield from baseline_k2_steps(some, settings, noise=noise, device=device, stop=stop))


def _check_memory(stack: FrameStack, settings: ContrastSettings, noise: Noise, *, keeps: bool) -> None:
    """Raise InvalidInput if the maps, or a window of frames, do not fit in memory.

    Maps without noise have their K beside its sign.
    """
    pixels, free = int(np.prod(stack.shape)), free_memory_bytes(CPU)
    needed = settings.count(stack.count) * pixels * (8 + settings.has_mask + 4 * noise.has_noise) if keeps else 0
    if needed > free:
        raise InvalidInput(
            f"the maps need {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB of memory are free; write them to "
            "files as they are computed (into=), use a part of the frames, or choose blocks"
        )
    if (window := min(settings.depth, stack.count) * pixels * stack.window_bytes) > free:
        raise InvalidInput(
            f"the {settings.depth} frames of a window need {window / 2**30:.1f} GiB and {free / 2**30:.1f} GiB of "
            "memory are free; choose fewer frames"
        )


def _newest(problem: Problem) -> ContrastMaps:
    """Return the last map that was computed."""
    return _made(problem.recipe, *problem.maps.one(int(np.flatnonzero(problem.reached)[-1])))


def _made(recipe: ContrastRecipe, signed: Array, index: Array | None, mask: Array | None, **more: Any) -> ContrastMaps:
    """Return maps as the kernels fill them."""
    return ContrastMaps(
        signed=signed, index=index, mask=mask, settings=recipe.settings, noise_subtracted=recipe.noise.has_noise, **more
    )


def _maps(problem: Problem, device: Device, seconds: float) -> ContrastMaps:
    """Return the result; maps that were not computed are cleared."""
    keeps = problem.hand_on is None
    if keeps:
        problem.maps.clear(~problem.reached)
    return _made(
        problem.recipe,
        *(problem.maps.one(0) if problem.stack.is_single and keeps else problem.maps),
        parameters=_parameters(problem, device, seconds),
        notes=_notes(problem),
        complete=bool(problem.reached.all()),
    )


def _parameters(problem: Problem, device: Device, seconds: float) -> dict[str, Any]:
    noise = problem.recipe.noise
    numbers = {"measured": True, "gain": noise.gain} if isinstance(noise, DarkNoise) else plain_fields(noise)
    settings = problem.recipe.settings
    what = {"speckle": plain_fields(settings), "unit": settings.unit, "noise": numbers, "frames": problem.stack.count}
    return how_made(device, seconds, **what)


def _notes(problem: Problem) -> tuple[str, ...]:
    s, stack = problem.recipe.settings, problem.stack
    left = stack.count - ((problem.items - 1) * s.step + s.depth)
    notes = [f"the last {left} of {stack.count} frames do not fill a block and were left out"] if left else []
    if problem.hand_on is not None and not problem.reached.all():
        done = int(np.count_nonzero(problem.reached))
        notes.append(f"the run was stopped after {done} of {problem.items} maps, and what was written has these")
    if problem.recipe.is_real and s.has_mask and not s.mask.saturation:
        notes.append("floating-point frames have no known saturation level; give it to mark saturated pixels")
    top, share = stack.largest
    if share > _MAX_SATURATED_SHARE and (top in _FULL_SCALES or 0 < s.mask.saturation <= top):
        advice = "" if 0 < problem.recipe.saturated <= top else f"; give saturation={top:.0f} to mark them"
        notes.append(f"{100 * share:.2g} % of samples are saturated ({top:.0f}), so contrast is too low there{advice}")
    if (black := sorted(stack.black)) and stack.count > 1:
        notes.append(
            f"{len(black)} of {stack.count} frames are 0 everywhere ({', '.join(map(str, black[:_MAX_NAMED]))}"
            f"{', …' if len(black) > _MAX_NAMED else ''}): a file that lacks frames is often shown so; leave them out"
        )
    return tuple(notes)


RESULTS = 3  # maps that stay valid while the next ones are computed


class ContrastStream:
    """Contrast of a camera's frames, one after another, on the CPU or on the first GPU of a device.

    Frames of a temporal window stay on the device. Maps are views of memory that is reused: those that a push returns
    stay valid until three more pushes have returned maps.

    Parameters
    ----------
    settings
        See `ContrastSettings`.
    shape
        Shape of a frame, (Y, X).
    dtype
        Type of the frames.
    noise, baseline
        See `napari_gpubio.speckle.contrast_steps`.
    device
        See `napari_gpubio.core.device.choose_device`.
    threads
        Threads on the CPU; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.speckle import ContrastSettings, ContrastStream, Temporal
    >>> with ContrastStream(ContrastSettings(mode=Temporal(frames=2)), (8, 8), np.uint8, device="cpu") as stream:
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
        noise: Noise | None = None,
        baseline: npt.ArrayLike | None = None,
        device: str | Device = "auto",
        threads: int | None = None,
    ) -> None:
        rows, width = shape
        self._given = np.dtype(dtype)
        self._recipe = ContrastRecipe(
            settings=settings,
            noise=noise or NoiseModel(),
            shape=(int(rows), int(width)),
            dtype=kernel_dtype(dtype),
            baseline=baseline,
        )
        self.device = choose_device(device)
        more = {} if self.device.is_gpu else {"threads": threads}
        self._live: Any = open_run(self._recipe, self.device.first, results=RESULTS, **more)
        self._in_window = 0

    @property
    def settings(self) -> ContrastSettings:
        """Settings of the maps."""
        return self._recipe.settings

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a frame, (Y, X)."""
        return self._recipe.shape

    def slot(self) -> Array:
        """Return memory for the next frame; filling and pushing it saves a copy on a GPU."""
        return np.asarray(self._live.slot())

    def push(self, frame: Array) -> ContrastMaps | None:
        """Process the next frame.

        Parameters
        ----------
        frame
            Shape (Y, X), of the stream's type.

        Returns
        -------
        Maps of shape (Y, X), or None if the window of frames is not full yet.

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
        made: Maps | None = self._live.push(frame, make_maps=full)
        if full and self.settings.mode.blocks:
            self._in_window = 0
        if made is None:
            return None
        return _made(self._recipe, *made.one(0))

    def __call__(self, frame: Array) -> ContrastMaps | None:
        """Process the next frame; see `push`."""
        return self.push(frame)

    def forget(self) -> None:
        """Start a new window, for instance after a gap in the frames."""
        self._in_window = 0
        self._live.forget()

    def close(self) -> None:
        """Free the memory."""
        self._live.close()

    def __enter__(self) -> "ContrastStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
