"""Selection of the scale that fluence is smoothed with, voxel by voxel; both backends share it.

Fluence of even and of odd photons, A and B, has independent noise. An estimate f that is made of each alone, f_A and
f_B, has the mean squared error

    E = <(f_A - f_B)^2> / 4 + <(f_A - A) (f_B - B)>,

variance plus squared bias, up to a constant: no model of the noise is needed, and none of the optics. Candidates are
tried from fine to coarse; wherever one has the lower E in a window around a voxel, it becomes the current best there,
which is the raw fluence at first. Errors are relative, with bright voxels counting more, as the root of the fluence.

A candidate is the fluence u smoothed twice: with p = G u, it is p^2 / G p. Of a field that obeys Helmholtz' equation
(diffusion in a homogeneous medium) a Gaussian G makes a multiple, G u = c u, and so p^2 / G p = u: without bias,
whatever the optical properties.

With a guide g, a fluence without noise that is about right, S u = g G u / G g takes the place of G u. It is exact
wherever u / g is constant in the window, inside of thin absorbers and beside sources as well; and a ratio of sums,
unlike a mean of ratios, weights voxels by their photons. Errors are then compared, and updates blended, within tissues:
what is best beside a vessel is not what is best in it. Where the guide is wrong by a step from one tissue to the next,
some light still crosses the border unnoticed below the noise; so at the end every tissue gets back, in wide windows,
the light that it had. What the error is then is measured voxel by voxel (``errors.py``), and where the noise was a few
percent and that error is larger, as beside sources that a guide has wrong, the fluence is left as it was.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Run
from napari_gpubio.denoise.kernels.fluence.errors import (
    BORDER,
    BRIGHT,
    STEEP,
    Evidence,
    Part,
    SquaredErrors,
    Windows,
    bounded,
    reported_error,
    squared_bias,
)
from napari_gpubio.denoise.kernels.fluence.problem import (
    Candidate,
    FluenceProblem,
    Regions,
    Smoothed,
    Window,
    make_window,
)

_REFERENCE, _SMOOTHER, _BACKGROUND = 1.7, 1.0, 1.5  # voxels: scales of what errors are relative to
_SHARE = 0.03  # of the background that the reference is at least
_FAINTEST = np.float32(1e-26)  # that a guide is at least: its products are single-precision numbers
_KEPT = 12.0  # voxels: scale over which a tissue keeps its light
_GUIDED = 3.0  # voxels: scale of what errors are relative to if there is a guide
_NO_NOISE = 1e-5  # of the fluence: there were no photons at all
_KNOWN = 0.05  # noise of the fluence below which it is left as it was where that was better
_STEEP_SHARE = 1e-5  # of the reference that its power is at least, so that nothing underflows
_GUIDED_SHARE = 1e-3  # of what they would be relative to without one that this is at least


class Comparison(NamedTuple):
    """Inputs and output of the pass `evaluate`; volumes of both halves have shape (2, X, Y, Z)."""

    pilot: Any  # the halves smoothed once
    halves: Any
    best: Any  # the current best estimate made of each of them
    reference: Any  # what errors are relative to, above 0, shape (X, Y, Z)
    difference: Any  # where the candidate's error less that of the current best goes, shape (X, Y, Z)
    gain: Any  # guide over smoothed guide, shape (X, Y, Z), where ``is_guided`` is not 0; else it is not read
    noise: np.float32  # a quarter of the weight of the variance
    is_guided: np.int32


class Update(NamedTuple):
    """Inputs and outputs of the pass `update_best`."""

    limit: Any  # the largest scale that is allowed, shape (X, Y, Z), where ``is_limited`` is not 0; else it is not read
    candidate: Any  # estimates of both halves, shape (2, X, Y, Z)
    best: Any
    scales: Any  # scale of the current best in mm, shape (X, Y, Z)
    scale: np.float32  # that of the candidate
    is_limited: np.int32


class Pass(NamedTuple):
    """A pass over the voxels of a smoothed volume: its name, and its arguments after the volume."""

    name: str
    arguments: tuple[Any, ...] = ()


KEEP = Pass("keep")
NOTHING: Window = (None, None, None)


class ScaleSelection(Run, ABC):
    """State of a scale selection on one device; items are candidates.

    Both halves lie behind one another in arrays of shape (2, X, Y, Z). A backend's ``Run`` defines how arrays are
    made and how passes over all voxels are done on its device.
    """

    def __init__(self, problem: FluenceProblem, *, device: Device) -> None:
        super().__init__(problem, device=device)
        self.problem = problem
        upload, empty = self._upload, self.empty
        self._segments = None if problem.regions is None else self._segments_of(problem.regions)
        self._tissues = None if problem.tissues is None else self._segments_of(problem.tissues)
        self._limit = None if problem.limit is None else upload(problem.limit)
        self._guide, self._gain = None, None
        if problem.guide is not None:
            self._guide, self._gain = empty(), empty()
            self._guide[...] = upload(problem.guide.values) / problem.guide.peak
            self._do("raise_to", self._guide, self._guide, np.float32(0.0), _FAINTEST)
        self.halves = empty(2)
        for half, given in zip(self.halves, problem.halves, strict=True):
            half[...] = upload(given) / problem.scale
            self._do("clear_faint", half)
        self._best = self.halves.copy()
        self._pairs, self._difference = [empty(2) for _ in range(3)], empty()
        self._reference, self._scales = empty(), empty()
        self._scales.fill(np.float32(0.0))
        self._smoother, self._background = (make_window(s, problem.steps) for s in (_SMOOTHER, _BACKGROUND))
        self._sloped = make_window(_REFERENCE, problem.steps, is_sloped=True)
        self._wide = make_window(_GUIDED, problem.steps)
        self._errors_over = Windows.of(problem.steps)
        self._left: Any = None  # squared error that is reported, over `_relative_to`, once it is measured
        self._keeping = make_window(_KEPT, problem.steps, is_sum=True)
        self._measure_reference()

    @abstractmethod
    def _upload(self, array: Any) -> Any:
        """An array of this device with the same content and of its own memory."""

    @abstractmethod
    def _download(self, array: Any) -> Any:
        """A NumPy array with the same content and of its own memory."""

    @abstractmethod
    def _segments_of(self, regions: Regions) -> Any:
        """Where regions end along each line, as `measure_segments` tells it, as an array of this device."""

    @abstractmethod
    def empty(self, *volumes: int) -> Any:
        """A volume of this device, or several behind one another, float32."""

    @abstractmethod
    def smooth(self, source: Any, window: Window, rooms: tuple[Any, Any], segments: Any, end: Pass = KEEP) -> Any:
        """Smooth one volume or both halves along x, y, z, within segments (None: all), and do the pass at the end.

        The rooms are two arrays of the source's shape to work in, one of which is returned with the result; the second
        one may be the source, which is then lost.
        """

    @abstractmethod
    def _do(self, name: str, *arguments: Any) -> None:
        """Do the pass of that name over all voxels."""

    def advance(self, start: int, count: int) -> None:
        """Try the candidates ``start`` to ``start + count - 1``."""
        for candidate in self.problem.candidates[start : start + count]:
            self._try(candidate)
        if start + count >= len(self.problem.candidates):
            if self._tissues is not None:
                self._keep_light()
            self._leave_what_was_better()

    def values(self) -> Any:
        """The best so far, as NumPy."""
        mean = self._pairs[0][0]
        self._do("average", *self._best, mean)
        return self._download(mean)

    def snapshot(self) -> Smoothed:
        """The best so far, and its error, as NumPy."""
        if self._left is None:
            self._left = self._measure_errors().reported
        left, raw = self._left.copy(), self.empty()
        self._do("dispersion", *self.halves, self._reference, raw)
        raw = self._mean(raw, self._errors_over.around)
        for squares, reference in ((left, self._relative_to()), (raw, self._reference)):
            self._do("standard_error", squares, reference)
        return Smoothed(self.values(), self._download(self._scales), self._download(left), self._download(raw))

    def _try(self, candidate: Candidate) -> None:
        """Update the current best where the candidate's error is lower."""
        noise, scale = np.float32(0.25 * self.problem.settings.smoothness), np.float32(candidate.scale_mm)
        is_guided, is_twice = self._guide is not None, not candidate.is_within
        segments = self._tissues if candidate.is_within else self._segments
        pilot, *rooms = self.pilot(self.halves, candidate.window, self._pairs, segments)
        again = candidate.window if is_twice else NOTHING
        gain = self._gain if is_guided else self._reference  # which is not read then
        compared = Comparison(
            pilot,
            self.halves,
            self._best,
            self._reference,
            self._difference,
            gain,
            noise,
            np.int32(is_guided & is_twice),
        )
        estimates = self.smooth(pilot, again, (rooms[0], rooms[1]), segments, Pass("evaluate", (compared,)))
        # without a guide, errors are smoothed across the borders of labels: they are alike on both sides
        difference, room = self._difference, pilot[0]
        weight = self.smooth(difference, candidate.evidence, (room, difference), self._compared, Pass("decide"))
        is_limited = self._limit is not None and not candidate.is_flat
        limit = self._limit if is_limited else self._reference  # which is not read then
        update = Update(limit, estimates, self._best, self._scales, scale, np.int32(is_limited))
        other = difference if weight is room else room
        self.smooth(weight, candidate.edge, (other, weight), self._compared, Pass("update_best", (update,)))

    def _keep_light(self) -> None:
        """Scale the best of each half so that its light is that of the half, tissue by tissue, in wide windows.

        Both lights are sums over the same part of a tissue, so that bright voxels count more.
        """
        given, *rooms = self._smoothed(self.halves, self._keeping, self._pairs, self._tissues)
        found = self.smooth(self._best, self._keeping, (rooms[0], rooms[1]), self._tissues)
        for best, light, own in zip(self._best, given, found, strict=True):
            self._do("compare_to", own, light, self._difference)
            self._do("scale_by", best, self._difference)

    def _leave_what_was_better(self) -> None:
        """Leave the fluence as it was where there is light enough to tell that it was better."""
        errors = self._measure_errors()
        is_worse = self._is_below(_KNOWN, errors.noise, self._relative_to()) & (errors.left > errors.noise)
        for best, half in zip(self._best, self.halves, strict=True):
            best[...] = np.where(is_worse, half, best)
        self._scales[...] = np.where(is_worse, np.zeros_like(self._scales), self._scales)
        self._left = np.where(is_worse, errors.noise, errors.reported)

    def _measure_reference(self) -> None:
        """What errors are relative to: the whole, smoothed without much bias, and above 0."""
        reference, masked = self._reference, self._masked
        whole, spare, *free = (volume for pair in self._pairs for volume in pair)
        self._do("average", *self.halves, whole)
        pilot, *rooms = self._smoothed(whole, self._sloped, free[:3], self._segments)
        end = Pass("correct", (pilot,))
        estimate = self.smooth(pilot, self._sloped, (rooms[0], rooms[1]), self._segments, end)
        reference[...] = self.smooth(estimate, self._smoother, (pilot, estimate), masked)
        background = self.smooth(whole, self._background, (spare, pilot), masked)
        self._do("raise_to", reference, background, np.float32(_SHARE), self.problem.least)
        if self._guide is not None:
            guided, *_ = self.pilot(whole, self._wide, free[:3], self._segments)
            self._do("raise_to", guided, reference, np.float32(_GUIDED_SHARE), self.problem.least)
            reference[...] = guided

    def pilot(self, source: Any, window: Window, rooms: list[Any], segments: Any) -> tuple[Any, ...]:
        """G u, or S u if there is a guide, in the first or second of three rooms, and the other two of them."""
        if self._guide is None:
            return self._smoothed(source, window, rooms, segments)
        smoothed = self.smooth(self._guide, window, (self._gain, self._difference), segments)
        self._do("compare_to", smoothed, self._guide, self._gain)
        pilot, *others = self._smoothed(source, window, rooms, segments)
        for volume in pilot.reshape(-1, *self.problem.shape):
            self._do("scale_by", volume, self._gain)
        return (pilot, *others)

    def _smoothed(self, source: Any, window: Window, rooms: list[Any], segments: Any) -> tuple[Any, ...]:
        """G u, in the first or second of three rooms, and the other two of them."""
        first, second, third = rooms
        found = self.smooth(source, window, (first, second), segments)
        return (first, second, third) if found is first else (second, first, third)

    @property
    def _masked(self) -> Any:
        """Segments within the mask, None if there is none: what is not fluence itself is smoothed across labels."""
        return self._segments if self.problem.is_masked else None

    @property
    def _compared(self) -> Any:
        """Segments within which errors are compared."""
        return self._tissues if self._guide is not None else self._masked

    @property
    def _pooled(self) -> Any:
        """Segments within which what is left of the error is averaged."""
        return self._segments if self._tissues is None else self._tissues

    def _measure_errors(self) -> SquaredErrors:
        """Squared errors, over `_relative_to`, that are left in the best so far and that were in the whole.

        Nothing is tried afterwards.
        """
        del self._pairs[1:]
        self._difference = None
        reference, windows, mean = self._relative_to(), self._errors_over, self._mean
        share = np.minimum(self._scales / np.float32(self.problem.candidates[0].scale_mm), np.float32(1.0))
        spread, product, noise = (self.empty() for _ in range(3))
        self._do("dispersion", *self._best, reference, spread)
        self._do("squared_bias", *self._best, *self.halves, reference, product)
        self._do("dispersion", *self.halves, reference, noise)
        variance = share * mean(spread, windows.around) + (np.float32(1.0) - share) * mean(spread, windows.close)
        share *= share
        product += share * spread  # see errors.py
        del spread
        around, close = (bounded(mean(noise, window)) for window in windows)
        evidence = Evidence(bounded(product), share, close, around, self._is_below(BRIGHT, close, reference))
        del noise
        bias = squared_bias(evidence, self._parts(), windows, mean)
        reported = reported_error(variance, bias, evidence, self._parts(), windows, mean)
        return SquaredErrors(variance + bias, close, reported)

    def _is_below(self, share: float, variance: Any, reference: Any) -> Any:
        """Whether a variance, over a reference, is that of an error below a share of the fluence, and of one at all."""
        error = np.sqrt(variance) * np.sqrt(reference)  # their product could be too small for a number
        return (error < np.float32(share) * self._reference) & (error > np.float32(_NO_NOISE) * self._reference)

    def _mean(self, values: Any, window: Window) -> Any:
        """Mean over a window of the voxels around each voxel, within tissues."""
        room, spare = self._pairs[0]
        spare[...] = values
        return self.smooth(spare, window, (room, spare), self._pooled).copy()

    def _parts(self) -> Iterator[Part]:
        """Where a guide is steep, borders elsewhere, and the rest."""
        rest = np.ones_like(self._scales)
        if self._guide is not None:
            change = np.abs(self._mean(self._guide, self.problem.candidates[0].window) - self._guide)
            steep = (change > np.float32(STEEP) * self._guide).astype(np.float32)
            yield Part(steep, is_shrunk=False)
            rest -= steep
        border = rest * self._border()
        yield Part(border)
        rest -= border
        yield Part(rest)

    def _border(self) -> Any:
        """1 at the border of a region within which errors are averaged, else 0; the volume's faces are none."""
        found = np.zeros_like(self._scales)
        for axis, sides in enumerate(() if self._pooled is None else self._pooled):
            near = max(1, round(BORDER / self.problem.steps[axis]))
            for side, within in zip(sides, (slice(near, None), slice(-near)), strict=True):
                place = (*(slice(None),) * axis, within)
                found[place] = np.maximum(found[place], (side[place] < near).astype(np.float32))
        return found

    def _relative_to(self) -> Any:
        """What squared errors are even relative to, if there is a guide the reference to the power of 3/2.

        Shot noise is even relative to the fluence; in an absorber that is as large as a window, relative to its square.
        """
        if self._guide is None:
            return self._reference
        found = self._reference.copy()
        self._do("scale_by", found, self._reference)
        self._do("standard_error", found, self._reference)
        self._do("raise_to", found, self._reference, np.float32(_STEEP_SHARE), self.problem.least)
        return found

    def _windows(self) -> Iterator[tuple[Window, bool]]:
        """All windows that are smoothed with, and whether within segments."""
        is_cut, masked = self._segments is not None, self._masked is not None
        compared = self._compared is not None
        for candidate in self.problem.candidates:
            yield candidate.window, is_cut or candidate.is_within
            yield candidate.evidence, compared
            yield candidate.edge, compared
        yield NOTHING, True
        yield self._sloped, is_cut
        yield self._wide, is_cut
        yield self._keeping, True
        for window in (*self._errors_over, self.problem.candidates[0].window):
            yield window, self._pooled is not None
        for window in (self._smoother, self._background):
            yield window, masked
