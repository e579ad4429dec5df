"""The tournament that chooses, voxel by voxel, how far fluence may be smoothed; both twins run it.

Fluence of even and of odd photons, A and B, has independent noise. An estimate f that is made of each alone, f_A and
f_B, has the mean squared error

    E = <(f_A - f_B)^2> / 4 + <(f_A - A) (f_B - B)>,

variance plus squared bias, up to a constant: no model of the noise is needed, and none of the optics. Challengers come
in from fine to coarse; wherever one has the lower E in a window around a voxel, it takes the holder's place there. The
first holder is the raw fluence. The errors are relative, with bright voxels counting more, as the root of the fluence.

A challenger is the fluence u smoothed twice: with p = G u, it is p^2 / G p. Of a field that obeys Helmholtz' equation
(diffusion in a homogeneous medium) a Gaussian G makes a multiple, G u = c u, and so p^2 / G p = u: without bias,
whatever the optical properties.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from napari_gpubio.denoise.fluence.ladder import Challenger, Window, make_window
from napari_gpubio.denoise.fluence.problem import FluenceProblem, Smoothed

_REFERENCE, _BACKGROUND, _EDGE = 1.7, 1.5, 1.2  # voxels: scales of what errors are relative to, and of hand-overs
_AROUND = 3.0  # voxels: scale over which the remaining noise is measured
_SHARE = 0.03  # of the background that the reference is at least


class Tournament(ABC):
    """State of a tournament, on one device; items are challengers.

    A twin's ``Run`` says how arrays are made and how the passes of ``passes.py`` are done on its device.
    """

    def __init__(self, problem: FluenceProblem) -> None:
        self._problem = problem
        upload, empty = self._upload, self._empty
        self._segments = None if problem.segments is None else upload(problem.segments)
        self._limit = None if problem.limit is None else upload(problem.limit)
        self._halves = tuple(upload(half) for half in problem.halves)
        self._holder = tuple(upload(half) for half in problem.halves)
        self._free = [empty() for _ in range(4)]
        self._scales = empty()
        self._scales.fill(np.float32(0.0))
        self._edge, self._around = self._window(_EDGE), self._window(_AROUND)
        self._reference = self._measure_reference()

    @abstractmethod
    def _upload(self, array: Any) -> Any:
        """An array of this device with the same content and of its own memory."""

    @abstractmethod
    def _download(self, array: Any) -> Any:
        """A NumPy array with the same content and of its own memory."""

    @abstractmethod
    def _empty(self) -> Any:
        """A volume of this device, float32."""

    @abstractmethod
    def _smooth(self, source: Any, window: Window, room: Any, out: Any, *, is_cut: bool) -> None:
        """Smooth a volume along x, y, z into another one, within segments if ``is_cut``; ``room`` may be used."""

    @abstractmethod
    def _do(self, name: str, *arguments: Any) -> None:
        """Do the pass of that name over all voxels."""

    def bytes_per_item(self) -> int:
        """Nothing beyond what is resident."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Let the challengers ``start`` to ``start + count - 1`` try."""
        for challenger in self._problem.challengers[start : start + count]:
            self._let_try(challenger)

    def values(self) -> Any:
        """What has won so far, as NumPy."""
        mean = self._free.pop()
        self._do("average", *self._holder, mean)
        self._free.append(mean)
        return self._download(mean)

    def snapshot(self) -> Smoothed:
        """What has won so far, and its noise, as NumPy."""
        errors = self._standard_error(self._holder), self._standard_error(self._halves)
        return Smoothed(self.values(), self._download(self._scales), *errors)

    def close(self) -> None:
        """Let the arrays go."""
        self._free.clear()
        self._segments = self._limit = self._scales = self._reference = None
        self._halves = self._holder = ()

    def _let_try(self, challenger: Challenger) -> None:
        """Hand over to a challenger where its error is lower."""
        estimates = tuple(self._estimate(half, challenger.window) for half in self._halves)
        noise, scale = np.float32(0.25 * self._problem.settings.smoothness), np.float32(challenger.scale_mm)
        weight = self._free.pop()
        self._do("compare", *self._halves, *self._holder, *estimates, self._reference, noise, weight)
        weight = self._smoothed(weight, challenger.evidence)
        self._do("decide", weight)
        weight = self._smoothed(weight, self._edge)
        if self._limit is not None and not challenger.is_flat:
            self._do("forbid", weight, self._limit, scale)
        for holder, estimate in zip(self._holder, estimates, strict=True):
            self._do("hand_over", weight, estimate, holder)
        self._do("hand_scale_over", weight, scale, self._scales)
        self._free.extend((*estimates, weight))

    def _measure_reference(self) -> Any:
        """What errors are relative to: the whole, smoothed without much bias, and above 0."""
        whole = self._empty()
        self._do("average", *self._halves, whole)
        reference = self._estimate(whole, self._window(_REFERENCE, is_sloped=True))
        reference = self._smoothed(reference, self._window(1.0))
        background = self._smoothed(whole, self._window(_BACKGROUND))
        self._do("raise_to", reference, background, np.float32(_SHARE), self._problem.least)
        self._free.append(background)
        return reference

    def _standard_error(self, pair: tuple[Any, ...]) -> Any:
        """Standard error of the mean of a pair, from their differences around each voxel."""
        variance = self._free.pop()
        self._do("dispersion", *pair, self._reference, variance)
        variance = self._smoothed(variance, self._around)
        self._do("standard_error", variance, self._reference)
        self._free.append(variance)
        return self._download(variance)

    def _estimate(self, half: Any, window: Window) -> Any:
        """The estimate p^2 / G p with p = G u, in a free volume."""
        pilot = self._smoothed(half, window, keep=True, is_cut=self._problem.segments is not None)
        again = self._smoothed(pilot, window, keep=True, is_cut=self._problem.segments is not None)
        self._do("correct", pilot, again)
        self._free.append(pilot)
        return again

    def _smoothed(self, source: Any, window: Window, *, keep: bool = False, is_cut: bool | None = None) -> Any:
        """A volume smoothed once, in a free one; the source becomes free, unless it is kept.

        What is said of an estimate, other than the estimate itself, may cross the borders of labels: errors are alike
        on both sides. It never crosses those of the mask, beyond which there may be anything.
        """
        out, room = self._free.pop(), self._free[-1] if keep else source
        self._smooth(source, window, room, out, is_cut=self._problem.is_masked if is_cut is None else is_cut)
        if not keep:
            self._free.append(source)
        return out

    def _window(self, scale: float, *, is_sloped: bool = False) -> Window:
        return make_window(scale, self._problem.steps, is_sloped=is_sloped)
