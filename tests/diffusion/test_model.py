"""The data model: tractograms are cut and joined without losing a number; what does not fit together is refused."""

import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.model import Cache, DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.run import select_volumes
from napari_gpubio.tractograms.model import Tractogram
from tests.tractograms.tractogram_samples import check_same_fibers

AFFINE = np.diag([-2.0, 2.0, 3.0, 1.0])
SHAPE = (10, 12, 14)
NAN = float("nan")
BENT = [(0, 0, 0), (3, 4, 0), (3, 4, 12)]  # 5 + 12 mm
STRAIGHT = [(1, 1, 1), (1, 1, 3)]  # 2 mm


def tractogram(*fibers, **more):
    """Fibers that are numbered 0, 1, ... and whose points are numbered through."""
    lengths = [len(f) for f in fibers]
    total = sum(lengths)
    return Tractogram(
        **{
            "points": np.concatenate([np.empty((0, 3)), *(np.reshape(f, (-1, 3)) for f in fibers)]),
            "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            "affine": AFFINE,
            "shape": SHAPE,
            "per_fiber": {"number": np.arange(len(fibers)), "pair": np.arange(2 * len(fibers)).reshape(-1, 2)},
            "per_point": {"number": np.arange(total)},
            "parameters": {"step_mm": 0.5},
            **more,
        }
    )


def bundle(**more):
    """Three fibers of six points."""
    return tractogram(BENT, [(9, 9, 9)], STRAIGHT, **more)


@pytest.fixture
def three():
    return bundle()


# -- tractograms ------------------------------------------------------------------------------------------------------


def test_fibers_come_out_as_they_went_in(three):
    assert len(three) == 3
    for fiber, given, n in zip(three, (BENT, [(9, 9, 9)], STRAIGHT), range(3), strict=True):
        assert fiber.dtype == np.float32
        for found in (fiber, three[n], three[n - 3]):
            np.testing.assert_array_equal(found, given)
    for outside in (3, -4):
        with pytest.raises(IndexError):
            three[outside]
    made = tractogram(BENT, offsets=[0, 3], points=[[0, 0, 0]] * 3, affine=AFFINE.tolist())
    assert (made.points.dtype, made.offsets.dtype, made.affine.dtype) == (np.float32, np.int64, np.float64)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_lengths_are_sums_of_segments_and_fibers_without_points_have_none(where):
    fibers, expected, counts = [BENT, STRAIGHT], [17, 2], [3, 2]
    for values, empty in ((fibers, []), (expected, 0), (counts, 0)):
        values.insert(where, empty)
    made = tractogram(*fibers)
    np.testing.assert_allclose(made.lengths_mm(), expected, atol=1e-12)
    np.testing.assert_array_equal(made.counts, counts)
    np.testing.assert_array_equal(made.fiber_of_point(), np.repeat(range(3), counts))
    assert made[where].shape == (0, 3)
    none = made.select([])
    assert (len(none), list(none), none.lengths_mm().shape, none.fiber_of_point().shape) == (0, [], (0,), (0,))
    assert len(Tractogram.join([none, none])) == 0


@pytest.mark.parametrize(
    ("keep", "which"),
    [
        ([True, False, True], [0, 2]),
        ([2, 0], [2, 0]),
        ([1, 1], [1, 1]),
        ([-1], [2]),
        ([], []),
        ([False] * 3, []),
        (np.array([2], np.uint8), [2]),
    ],
)
def test_selected_fibers_keep_all_their_numbers(three, keep, which):
    chosen = three.select(keep)
    assert len(chosen) == len(which)
    for n, original in enumerate(which):
        np.testing.assert_array_equal(chosen[n], three[original])
        rows = slice(three.offsets[original], three.offsets[original + 1])
        mine = slice(chosen.offsets[n], chosen.offsets[n + 1])
        np.testing.assert_array_equal(chosen.per_point["number"][mine], three.per_point["number"][rows])
    np.testing.assert_array_equal(chosen.per_fiber["number"], which)
    np.testing.assert_array_equal(chosen.per_fiber["pair"], np.arange(6).reshape(3, 2)[which])
    assert (chosen.parameters, chosen.shape) == (three.parameters, SHAPE)


@pytest.mark.parametrize("keep", [[True, False], [True] * 4, [3], [-4]])
def test_a_choice_that_does_not_fit_is_refused(three, keep):
    with pytest.raises((InvalidInput, IndexError)):
        three.select(keep)


def test_joined_parts_are_the_whole(three):
    check_same_fibers(Tractogram.join([three.select([0]), three.select([]), three.select([1, 2])]), three)
    poorer = dataclasses.replace(three, per_fiber={"pair": three.per_fiber["pair"], "own": np.zeros(3)}, per_point={})
    for order in ([three, poorer], [poorer, three]):
        joined = Tractogram.join(order)
        assert (set(joined.per_fiber), set(joined.per_point), len(joined)) == ({"pair"}, set(), 6)
    assert Tractogram.join([three, three]).complete
    assert not Tractogram.join([three, dataclasses.replace(three, complete=False)]).complete


def test_only_fibers_of_one_volume_can_be_joined(three):
    with pytest.raises(InvalidInput, match="give at least one"):
        Tractogram.join([])
    shifted = AFFINE + 0.01 * np.eye(4, k=3)
    for other in (dataclasses.replace(three, shape=(10, 12, 15)), dataclasses.replace(three, affine=shifted)):
        with pytest.raises(InvalidInput, match="belong to different volumes"):
            Tractogram.join([three, other])


# -- diffusion scans --------------------------------------------------------------------------------------------------


def scan(b=(0, 1000, 1000), **more):
    n = len(b)
    parts = {
        "data": np.ones((4, 4, 4, n)),
        "bvals": np.array(b, float),
        "directions": np.eye(3)[np.arange(n) % 3],
        "affine": AFFINE,
    }
    return DiffusionScan(**{**parts, **more})


@pytest.mark.parametrize(
    ("bvals", "shells"),
    [
        ((0, 5, 50), [0]),
        ((50.1,), [50]),
        ((0, 995, 1005, 1000), [0, 1000]),
        ((3000, 0, 700, 1200, 2800), [0, 700, 1200, 2800, 3000]),
        ((0, 149, 151), [0, 150]),
        ((745, 750, 755, 5, 0), [0, 750]),
        ((0, 650, 700, 750, 1250), [0, 700, 1250]),
        (range(0, 1000, 10), [0, 150, 350, 600, 800, 950]),
    ],
)
def test_b_values_near_each_other_are_one_shell(bvals, shells):
    assert scan(bvals).shells() == shells


@pytest.mark.parametrize("bvals", [(0, 50, 149.9, 150, 250, 1049.99, 1050, 1050.01, 2950, 3050)])
def test_every_volume_belongs_to_exactly_one_shell(bvals):
    made = scan(bvals)
    found = np.concatenate([select_volumes(made, (shell,)) for shell in made.shells()])
    np.testing.assert_array_equal(np.sort(found), np.arange(len(bvals)))


def test_weak_weighting_counts_as_none():
    np.testing.assert_array_equal(scan((0, 50, 50.1, 1000)).is_b0, [True, True, False, False])


# -- tensor fields ----------------------------------------------------------------------------------------------------


def tensor_field(**more):
    parts = {"tensors": np.zeros((4, 5, 6, 6)), "mask": np.ones((4, 5, 6), bool), "affine": AFFINE}
    return TensorField(**{**parts, **more})


@pytest.mark.parametrize(
    ("make", "wrong", "sentence"),
    [
        (bundle, {"points": np.zeros((6, 2))}, r"points have shape \(P, 3\); this array has shape \(6, 2\)"),
        (bundle, {"points": np.zeros(18)}, r"this array has shape \(18,\)"),
        (bundle, {"offsets": [0, 3, 5]}, "offsets must run from 0 to the number of points, 6"),
        (bundle, {"offsets": [1, 3, 4, 6]}, "offsets must run from 0"),
        (bundle, {"offsets": []}, "offsets must run from 0"),
        (bundle, {"offsets": [[0, 6]]}, "offsets must run from 0"),
        (bundle, {"offsets": [0, 4, 3, 6]}, "offsets must not decrease"),
        (bundle, {"per_fiber": {"fa": np.zeros(2)}}, "'fa' has 2 values for 3 fibers"),
        (bundle, {"per_point": {"fa": np.zeros(5)}}, "'fa' has 5 values for 6 points"),
        (bundle, {"affine": np.eye(3)}, "4 x 4"),
        (bundle, {"affine": np.diag([1, 0, 1, 1])}, "cannot be inverted"),
        (bundle, {"affine": np.full((4, 4), NAN)}, "not finite"),
        (scan, {"data": np.ones((4, 4, 4))}, "has 4 dimensions .* this array has 3"),
        (scan, {"data": np.ones((4, 4, 4, 5))}, "5 volumes, but there are 3 b-values and 3 directions"),
        (scan, {"bvals": np.zeros(2)}, "3 volumes, but there are 2 b-values"),
        (scan, {"directions": np.zeros((2, 3))}, "3 volumes, but there are 3 b-values and 2 directions"),
        (scan, {"directions": np.zeros((3, 2))}, "3 volumes"),
        (scan, {"bvals": np.array([0, NAN, 1000])}, "not finite"),
        (scan, {"directions": np.full((3, 3), np.inf)}, "not finite"),
        (scan, {"affine": np.zeros((4, 4))}, "cannot be inverted"),
        (
            tensor_field,
            {"tensors": np.zeros((4, 5, 6, 5))},
            r"shape \(X, Y, Z, 6\); this array has shape \(4, 5, 6, 5\)",
        ),
        (tensor_field, {"tensors": np.zeros((4, 5, 6))}, r"\(X, Y, Z, 6\)"),
        (tensor_field, {"mask": np.ones((4, 5, 7), bool)}, r"mask has shape \(4, 5, 7\) and the tensors \(4, 5, 6\)"),
        (tensor_field, {"affine": np.eye(4)[:3]}, "4 x 4"),
    ],
)
def test_what_does_not_fit_together_is_refused(make, wrong, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make(**wrong)


def test_a_tensor_field_knows_its_grid_and_computes_its_eigenvectors_once():
    field = tensor_field(tensors=np.broadcast_to([1.0, 3.0, 2.0, 0, 0, 0], (4, 5, 6, 6)))
    assert (field.shape, field.repaired_count) == ((4, 5, 6), 0)
    np.testing.assert_allclose(field.voxel_sizes_mm, [2, 2, 3])
    repaired = np.zeros(field.shape, bool)
    repaired[1, :2, 3] = True
    assert tensor_field(repaired=repaired).repaired_count == 2
    np.testing.assert_allclose(field.eigen.values[2, 3, 4], [3, 2, 1])
    np.testing.assert_allclose(np.abs(field.eigen.vectors[2, 3, 4]), [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert field.eigen is field.eigen
    assert tensor_field().cache is not tensor_field().cache


class Maker:
    """Counts what it makes."""

    def __init__(self):
        self.made = []

    def get(self, cache, name):
        return cache.get(name, lambda: self.made.append(name) or f"{name} {len(self.made)}")


def test_a_cache_makes_each_thing_once():
    cache, maker = Cache(), Maker()
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert [maker.get(cache, "a") for _ in range(3)] == ["a 1"] * 3
    cache.clear()
    assert maker.get(cache, "a") == "a 2"


def test_the_cache_drops_what_was_not_used_for_longest():
    cache, maker = Cache(capacity=2), Maker()
    for name in "abaca":
        maker.get(cache, name)
    assert maker.made == ["a", "b", "c"]  # a was used again in between, so c drove b out
    maker.get(cache, "b")
    assert maker.made == ["a", "b", "c", "b"]


def test_two_threads_make_a_thing_once():
    cache, maker, barrier = Cache(capacity=200), Maker(), threading.Barrier(2)

    def use():
        barrier.wait()
        for name in range(200):
            maker.get(cache, name)

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(maker.made) == list(range(200))
