"""Registration: known shifts are found to the pixel, and what has nothing in common is not moved."""

import functools
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, contrast, register
from napari_gpubio.speckle.model import EDGE
from napari_gpubio.speckle.registration import LARGEST_SHIFT, ShiftFinder, register_steps, shift_frame
from napari_gpubio.speckle.samples import Camera, SpeckleField
from napari_gpubio.speckle.settings import Spatial
from tests.runs import stopped

MARGIN, SHAPE = 110, (250, 300)


def scene(shape=(90, 110), seed=0):
    return 200 + 800 * np.abs(SpeckleField(shape, 0.08, np.random.default_rng(seed)).draw()) ** 2


def moved_scene(shifts):
    """Parts of one scene: frames that are moved by whole pixels."""
    big = scene((120, 140)).astype(np.uint16)
    return np.stack([big[10 + dy : 100 + dy, 10 + dx : 120 + dx] for dy, dx in shifts])


@pytest.mark.parametrize("shift", [(0, 0), (3, -5), (-8, 2), (11, 13)])
def test_a_known_shift_is_found(shift):
    big, rng = scene((120, 140)), np.random.default_rng(1)
    reference = big[15:105, 15:125]
    moved = big[15 + shift[0] : 105 + shift[0], 15 + shift[1] : 125 + shift[1]]
    noisy = moved + 40 * rng.standard_normal(moved.shape)
    assert ShiftFinder(reference).find(noisy) == shift
    inner = (slice(15, -15),) * 2
    np.testing.assert_array_equal(shift_frame(moved, shift)[inner], reference[inner])


def test_a_stack_is_registered_by_whole_pixels():
    shifts = [(0, 0), (2, -3), (-4, 1)]
    frames = moved_scene(shifts)
    found = register(frames)
    assert found.shifts.tolist() == [list(s) for s in shifts]
    assert found.frames.dtype == np.uint16
    inner = (slice(None), slice(8, -8), slice(8, -8))
    np.testing.assert_array_equal(found.frames[inner], np.broadcast_to(frames[0], frames.shape)[inner])
    assert (found.frames[1, :2] == 0).all()


def test_a_registration_can_be_stopped():
    frames, stop = moved_scene([(0, 0), (2, 0), (4, 0)]), threading.Event()
    found = stopped(register_steps(frames, stop=stop), stop, after=1)
    assert found.shifts.tolist() == [[0, 0], [2, 0], [0, 0]]
    np.testing.assert_array_equal(found.frames[0:3][2], frames[2])


@pytest.mark.parametrize("edges", ["valid", "reflect"])
def test_what_came_in_from_outside_has_no_contrast(edges):
    found = register(moved_scene([(0, 0), (2, -3)]))
    maps = contrast(found, ContrastSettings(mode=Spatial(edges=edges)), device="cpu")
    known = np.zeros(found.frames.shape, bool)
    known[:, 4 : 90 if edges == "reflect" else 88, (0 if edges == "reflect" else 2) : 105] = True
    np.testing.assert_array_equal(np.isfinite(maps.contrast), known)
    assert (maps.mask[~known] & EDGE).all()
    assert np.isnan(maps.index[~known]).all()


# -- speckle that changes from frame to frame -------------------------------------------------------------------------


def fully_developed(shape, cutoff, seed):
    return np.abs(SpeckleField(shape, cutoff, np.random.default_rng(seed)).draw()) ** 2


@functools.cache
def tissue(cutoff, depth):
    """What rests: mean 1, structure of about 1/cutoff pixels."""
    whole = tuple(n + 2 * MARGIN for n in SHAPE)
    return 1 + depth * (fully_developed(whole, cutoff, 3) - 1)


def picture(structure, shift, seed, patterns=16):
    """A camera's frame of a part of the structure, times speckle that no other seed has."""
    parts = (slice(MARGIN - d, MARGIN - d + n) for d, n in zip(shift, SHAPE, strict=True))
    light = sum(fully_developed(SHAPE, 0.35, (*np.atleast_1d(seed), n)) for n in range(patterns)) / patterns
    return Camera().expose(np.maximum(structure[tuple(parts)] * light, 0), np.random.default_rng(seed))


SHIFTS = [(0, 0), (1, 0), (-4, 7), (33, -21), (-75, 3), (0, 95), (70, -90)]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize(("cutoff", "depth"), [(0.08, 0.5), (0.03, 0.5)], ids=["fine", "broad"])
def test_structure_under_independent_speckle_is_found_to_the_pixel(cutoff, depth, shift):
    reference, frame = (picture(tissue(cutoff, depth), s, seed) for s, seed in (((0, 0), 1), (shift, 2)))
    assert ShiftFinder(reference).find(frame) == (-shift[0], -shift[1])


def test_the_largest_shift_is_where_it_is_said_to_be():
    structure = tissue(0.08, 0.5)
    finder = ShiftFinder(picture(structure, (0, 0), 1))
    most = int(LARGEST_SHIFT * SHAPE[1])
    assert finder.find(picture(structure, (0, most), 2)) == (0, -most)
    assert finder.find(picture(structure, (0, most + 2), 3)) is None


def test_what_lies_half_a_frame_apart_is_not_wrapped_round():
    structure = fully_developed((SHAPE[0] * 2, SHAPE[1] * 2), 0.08, 5)
    for d in (0.55, 0.7, 0.9):
        rows, columns = int(d * SHAPE[0]), int(d * SHAPE[1])
        one = structure[: SHAPE[0], : SHAPE[1]]
        assert ShiftFinder(one).find(structure[rows : rows + SHAPE[0], : SHAPE[1]]) is None
        assert ShiftFinder(one).find(structure[: SHAPE[0], columns : columns + SHAPE[1]]) is None


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["speckle", "noise", "tissue"])
def test_what_has_nothing_in_common_has_no_shift(kind, seed):
    if kind == "speckle":
        one, other = (picture(np.ones_like(tissue(0.08, 0.5)), (0, 0), (seed, n)) for n in (1, 2))
    elif kind == "noise":
        one, other = np.random.default_rng(seed).integers(500, 600, (2, *SHAPE), np.uint16)
    else:
        whole = tissue(0.08, 0.5).shape
        one, other = (picture(fully_developed(whole, 0.08, (seed, n)), (0, 0), (seed, n)) for n in (1, 2))
    assert ShiftFinder(one).find(other) is None


@pytest.mark.parametrize("even", ["frame", "reference", "both"])
def test_even_frames_have_no_shift(even):
    structure = picture(tissue(0.08, 0.5), (0, 0), 1)
    flat = np.full(SHAPE, 700, np.uint16)
    reference = structure if even == "frame" else flat
    frame = structure if even == "reference" else flat
    assert ShiftFinder(reference).find(frame) is None


def test_frames_without_a_match_stay_and_are_reported():
    structure = tissue(0.08, 0.5)
    frames = np.stack([picture(structure, s, n) for n, s in enumerate([(0, 0), (3, -2), (0, 0), (-6, 1)])])
    frames[2] = 700
    found = register(frames)
    assert found.shifts.tolist() == [[0, 0], [-3, 2], [0, 0], [6, -1]]
    assert found.unmatched == (2,)
    assert found.notes[0].startswith("1 of 4 frames (2) have no detail in common with the reference (the first")
    assert register(frames[:2]).notes == ()


def test_only_the_middle_of_large_frames_is_compared():
    whole = np.random.default_rng(8).integers(0, 4096, (1100, 2300), np.uint16)
    finder = ShiftFinder(whole[20:1060, 40:2240])
    assert finder.find(whole[13:1053, 71:2271]) == (-7, 31)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (3, 5), (17, 19)], ids=str)
def test_tiny_frames_do_no_harm(shape):
    one, other = np.random.default_rng(9).integers(0, 99, (2, *shape), np.uint8)
    assert ShiftFinder(one).find(other) is None


def test_frames_that_cannot_be_compared():
    with pytest.raises(InvalidInput, match="give one frame"):
        ShiftFinder(np.ones((20, 20, 3)))
    with pytest.raises(InvalidInput, match="give one of its size"):
        ShiftFinder(np.ones((20, 20))).find(np.ones((20, 21)))
    with pytest.raises(InvalidInput, match="give one of its size"):
        register(np.ones((2, 20, 20), np.uint8), np.ones((20, 21)))
