"""The error that a scale selection leaves, voxel by voxel; both backends share it, on their own arrays.

Two estimates f_A and f_B, made of the halves A and B, tell a variance and a squared bias:

    v = <(f_A - f_B)^2> / 4,        b^2 = <(f_A - A) (f_B - B)>.

Both are means over neighbors, relative to a reference. Five things would make them too small:

* **The choice.** Scales were chosen by these very halves, which fits them too well: in Monte Carlo fluence b^2 is too
  small by about v. So v is added to it, where a scale was chosen.
* **Dilution.** A guide is wrong, and windows do harm, within a voxel or two of borders and sources. So parts of a
  tissue are averaged apart: where a guide is steep (near sources, at and inside of absorbers), borders, and the rest.
* **What was left alone** has no bias, and the variance of the halves: means are relative to the share that was changed,
  and where nothing was, the variance is a mean over the next neighbors.
* **Luck.** Of a mean of n products of noise whose variance in the whole is R, the variance is 4 R (R + b^2) / n. By
  that b^2 is shrunk toward 0 (James and Stein 1961), but not where a guide is steep; and a mean over the next
  neighbors, or where there is light enough a single voxel, replaces it as far as that is larger by more than luck.
* **Mixed parts.** Next to where a guide is steep it is wrong, too: those voxels are averaged apart and not shrunk, as
  far as that tells more. And in all that is averaged apart both halves share some of the choice, so that v is 0.4 to
  0.7 of the variance from run to run: squares are reported larger by `MARGIN` there.

What is left alone at the end is decided by the error without the last of these.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.denoise.kernels.fluence.problem import Taps, Window, make_window

AROUND, CLOSE = 3.0, 1.2  # voxels: scales of means over neighbors
BORDER = 1  # voxels at the border of a tissue that are averaged apart
STEEP = 0.05  # by which the finest window changes a guide where voxels are averaged apart
BRIGHT = 0.02  # noise of the whole / fluence below which single voxels tell their bias
BESIDE = 0.3  # of the next neighbors are where a guide is steep: voxels that it is wrong in, too
MARGIN = (
    1.3  # by which squares are reported larger in mixed parts: in the worst place measured 0.64 was reported without it
)
_ALIKE = 2.0  # voxels of Monte Carlo fluence that count as one, as their noise is alike
_NEARER = 1.5  # standard deviations by which a mean over the next neighbors must be larger
_ALONE = 1.0  # and a single voxel
_MIN_SHARE = np.float32(1e-3)  # of voxels that were changed, which means are relative to at least
_FAINT, _LARGEST = np.float32(1e-30), np.float32(1e15)  # of what is squared
_ZERO, _ONE, _FOUR = np.float32(0.0), np.float32(1.0), np.float32(4.0)

Mean = Callable[[Any, Window], Any]  # averages values over a window, within tissues


class Windows(NamedTuple):
    """What is averaged over."""

    around: Window
    close: Window

    @classmethod
    def of(cls, steps: list[float]) -> "Windows":
        """Those of voxels whose edges are so many times the finest."""
        return cls(make_window(AROUND, steps), make_window(CLOSE, steps))


class Part(NamedTuple):
    """Voxels whose bias is a mean of its own."""

    voxels: Any  # 1 in the part, else 0, shape (X, Y, Z)
    is_shrunk: bool = True  # whether there may be none


class Evidence(NamedTuple):
    """What both halves tell, shape (X, Y, Z), single precision; squares are over the reference."""

    product: Any  # (f_A - A) (f_B - B), and what the choice hides of it
    share: Any  # of the squared bias of what is changed throughout that a voxel has, 0 to 1
    close: Any  # <(A - B)^2> / 4 over the next neighbors
    around: Any  # and over more of them
    is_bright: Any  # whether that is so little beside the fluence that single voxels tell their bias


class SquaredErrors(NamedTuple):
    """Squared errors over the reference, shape (X, Y, Z)."""

    left: Any
    noise: Any  # variance of the fluence itself
    reported: Any  # what is reported of what is left, at least that


def bounded(values: Any) -> Any:
    """Bound values, in place, so that they can be squared: where the reference is next to nothing, they are large."""
    return np.clip(values, -_LARGEST, _LARGEST, out=values)


def squared_bias(evidence: Evidence, parts: Iterator[Part], windows: Windows, mean: Mean) -> Any:
    """Squared bias of each voxel, over the reference; ``mean`` averages within tissues."""
    product, share, noise = evidence.product, evidence.share, evidence.close
    bias = _apart(evidence, parts, windows.around, mean)
    nearer, there = _relative(product, share, windows.close, mean)
    bias = _raised(bias, nearer, noise, there * np.float32(_independent(windows.close) / _NEARER**2))
    alone, there = _relative(product, share, windows.close, lambda values, _: values)
    bias = np.where(evidence.is_bright, _raised(bias, alone, noise, there / np.float32(_ALONE**2)), bias)
    return share * bias


def reported_error(
    variance: Any, bias: Any, evidence: Evidence, parts: Iterator[Part], windows: Windows, mean: Mean
) -> Any:
    """Squared error that is reported, over the reference: more than variance and squared bias in mixed parts."""
    share, (*apart, (rest, _)) = evidence.share, parts
    mixed = sum((part.voxels for part in apart), np.zeros_like(rest))
    steep = sum((part.voxels for part in apart if not part.is_shrunk), np.zeros_like(rest))
    beside = rest * (mean(steep, windows.close) > np.float32(BESIDE))
    more, _ = _relative(evidence.product * beside, share * beside, windows.around, mean)
    mixed = (mixed + beside) * (share > _ZERO)
    return (variance + np.maximum(bias, share * beside * more)) * (_ONE + np.float32(MARGIN - 1.0) * mixed)


def _apart(evidence: Evidence, parts: Iterator[Part], window: Window, mean: Mean) -> Any:
    """Squared bias of what is changed throughout, part by part."""
    product, share, noise = evidence.product, evidence.share, evidence.around
    count, found = np.float32(_independent(window)), np.zeros_like(noise)
    for part, is_shrunk in parts:
        bias, there = _relative(product * part, share * part, window, mean)
        if is_shrunk:
            bias *= _trust(bias, bias, noise, there * count)
        found += part * bias
    return found


def _relative(product: Any, share: Any, window: Window, mean: Mean) -> tuple[Any, Any]:
    """Squared bias, at least 0, of what is changed throughout, and the part of the voxels that it is the mean of."""
    whole, squares = mean(share, window), mean(share * share, window)
    bias = np.maximum(mean(product, window), _ZERO)
    bias /= np.maximum(whole, _MIN_SHARE)
    part = np.maximum(whole * whole, _FAINT)
    part /= np.maximum(squares, _FAINT)
    return bias, part


def _raised(bias: Any, nearer: Any, noise: Any, count: Any) -> Any:
    """Squared bias, raised toward that of fewer voxels."""
    more = np.maximum(nearer - bias, _ZERO)
    return bias + more * _trust(more, nearer, noise, count)


def _trust(step: Any, bias: Any, noise: Any, count: Any) -> Any:
    """How much of a step of the squared bias is more than luck, 0 to 1; ``count`` of independent voxels."""
    variance = noise + bias
    variance *= noise
    variance /= np.maximum(count, _MIN_SHARE) / _FOUR
    squares = step * step
    variance /= np.maximum(np.maximum(squares, variance, out=squares), _FAINT, out=squares)
    return np.subtract(_ONE, variance, out=variance)


def _independent(window: Window) -> float:
    """Voxels of a window that count."""
    found = 1.0 / _ALIKE
    for taps in window:
        found /= _squares(taps)
    return max(1.0, found)


def _squares(taps: Taps | None) -> float:
    """Sum of the squared weights of a window along an axis."""
    if taps is None:
        return 1.0
    squares = np.square(taps.weights, dtype=np.float64)
    return float(2.0 * squares.sum() - squares[0])
