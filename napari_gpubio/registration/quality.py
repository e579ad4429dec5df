"""Figures by which a registration is judged, and what they say."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import in_grid, nearest_voxels
from napari_gpubio.registration.model import Warp

Array = npt.NDArray[Any]
_BINS, _ZEROS = 48, 0.1  # of a histogram; share of voxels with the lowest number in an image that was masked
LEAST_OVERLAP, MOST_SCALING, MOST_TURN_DEGREES, MIRROR_GAIN = 0.85, 0.06, 45.0, 1.02
MOST_WARP_MM, LEAST_GAIN = 15.0, 1.03  # the gain: below it, labels of known warps lay better without


def foreground(values: Array) -> npt.NDArray[np.bool_]:
    """Which voxels belong to the head or the brain: all but the background, with holes filled."""
    from scipy.ndimage import binary_fill_holes, binary_opening

    low = values.min()
    inside = values > low
    if np.count_nonzero(~inside) < _ZEROS * values.size:  # noise around it
        inside = values > low + (_otsu(values) - low) / 2  # between the noise and the darker tissues
    opened = binary_opening(inside)
    return np.asarray(binary_fill_holes(opened if opened.any() else inside))


def _otsu(values: Array) -> float:
    """Threshold between the darker and the brighter voxels, with the least variance within both."""
    counts, edges = np.histogram(np.minimum(values, np.percentile(values, 98)), 256)
    middles = (edges[1:] + edges[:-1]) / 2
    below, sums = np.cumsum(counts), np.cumsum(counts * middles)
    above = below[-1] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * np.square(sums / below - (sums[-1] - sums) / above)
    return float(middles[np.nanargmax(between)])


def overlap(one: Array, other: Array) -> float:
    """Dice's coefficient of two masks on one grid, 0 to 1."""
    both = np.count_nonzero(one) + np.count_nonzero(other)
    return float(2.0 * np.count_nonzero(one & other) / both) if both else 0.0


def mutual_information(one: Array, other: Array) -> float:
    """Mutual information of two images on one grid, in bits: how much of one the other tells."""
    counts, _, _ = np.histogram2d(_trimmed(one), _trimmed(other), bins=_BINS)
    joint = counts / counts.sum()
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0
    return float((joint[there] * np.log2(joint[there] / product[there])).sum())


def _trimmed(values: Array) -> Array:
    return np.clip(values, *np.percentile(values, (0.5, 99.5))).ravel()


def shape_of(matrix: Array) -> dict[str, float]:
    """Return the angle by which a matrix turns, the largest change of a length, and its determinant."""
    u, scales, vt = np.linalg.svd(matrix[:3, :3])
    cosine = (np.trace(u @ vt) - 1.0) / 2.0
    return {
        "rotation_degrees": float(np.degrees(np.arccos(np.clip(cosine, -1, 1)))),
        "largest_scaling": float(max(scales, key=lambda one: abs(np.log(one)))),
        "determinant": float(np.linalg.det(matrix[:3, :3])),
    }


def warp_figures(warp: Warp, points: Array) -> dict[str, float]:
    """By how much points, shape (N, 3) in mm, are bent, and how little the surroundings of one are left."""
    size = np.linalg.norm(warp.moved(points) - points, axis=-1)
    at = nearest_voxels(warp.affine, points)
    determinants = warp.jacobians()[tuple(at[in_grid(at, warp.displacements.shape[:3])].T)]
    return {
        "mean_warp_mm": float(size.mean()),
        "largest_warp_mm": float(size.max()),
        "least_jacobian": float(determinants.min(initial=1.0)),
    }


def doubts(figures: Mapping[str, float], method: str) -> tuple[str, ...]:
    """Return what is to be looked at, in sentences, by the figures of a registration."""
    found = list[str]()
    if figures["overlap_after"] < LEAST_OVERLAP:
        found.append(
            f"the brains (or heads) overlap by {figures['overlap_after']:.0%}: look at the checkerboard; one may be "
            "cut off, without its skull, or of another subject"
        )
    if figures["mutual_information_after"] <= figures["mutual_information_before"]:
        found.append("mutual information has not grown: the images lay better before; look at the checkerboard")
    if abs(figures["largest_scaling_of_an_affine"] - 1) > MOST_SCALING:
        sentence = f"an affine fit changes a length by {abs(figures['largest_scaling_of_an_affine'] - 1):.0%}"
        use = "" if method == "affine" else "; use affine for a template"
        found.append(f"{sentence}: is it a template, or the T1 of another subject{use}?")
    if figures["rotation_degrees"] > MOST_TURN_DEGREES:
        found.append(f"it is turned by {figures['rotation_degrees']:.0f}°: check the orientation in both headers")
    if figures["metric_mirrored"] > MIRROR_GAIN * figures["metric"]:
        found.append(
            f"it fits better when mirrored left to right (mutual information {figures['metric_mirrored']:.3g} against "
            f"{figures['metric']:.3g}): check in both headers which side is left"
        )
    return (*found, *_doubts_of_a_warp(figures))


def _doubts_of_a_warp(figures: Mapping[str, float]) -> Iterator[str]:
    if "least_jacobian" not in figures:
        return
    if figures["least_jacobian"] <= 0:
        yield (
            f"the warp folds (least Jacobian determinant {figures['least_jacobian']:.2g}): parts of the brain lie on "
            "others there; use affine, or images that are more alike"
        )
    if figures["largest_warp_mm"] > MOST_WARP_MM:
        yield (
            f"the warp moves by up to {figures['largest_warp_mm']:.0f} mm after the affine part, more than two healthy "
            "brains differ: look at the checkerboard; one may be cut off, or with its skull"
        )
    gain = figures["mutual_information_after"] / max(figures["mutual_information_affine"], 1e-9)
    if gain < LEAST_GAIN:
        yield (
            f"mutual information hardly grew by the warp ({figures['mutual_information_after']:.3g} bits with it, "
            f"{figures['mutual_information_affine']:.3g} without), and labels may lie better without it: look at the "
            "checkerboard, and use affine, or images of the same contrast, such as FA and FA"
        )
