"""Contours as they come: any start, any direction, holes, islands, keyholes, copies, grid lines, gaps, bad points."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import ByAccuracy, BySpacing, Dose, DvhSettings, contour_structure, dvh
from napari_gpubio.dose.structures.outlines import gaps_of, slab_bounds
from napari_gpubio.dose.structures.planes import one_slice_each
from napari_gpubio.dose.structures.shapes import zero_level
from napari_gpubio.dose.structures.slices import with_slices
from tests.described import check_described
from tests.dose.samples import PLANES, ROTATION, affine_of, at, check_same, circle, linear_dose, square, stack
from tests.sentences import says

DOSE = linear_dose((0.3, 0.5, 0.7))
SETTINGS = DvhSettings(sampling=BySpacing(spacing_mm=0.7))


def run(structure, settings=SETTINGS, dose=DOSE):
    return dvh(dose, structure, settings, device="cpu").dvhs[0]


def star(seed=0, points=40):
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.random(points)) * 2 * np.pi
    return (rng.random(points) * 8 + 3)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])


@pytest.mark.parametrize(
    "change",
    [
        lambda loop: [loop[::-1]],
        lambda loop: [np.roll(loop, 7, axis=0)],
        lambda loop: [np.concatenate([loop, loop[:1]])],
        lambda loop: [np.repeat(loop, 2, axis=0)],
        lambda loop: [loop, np.roll(loop[::-1], 3, axis=0)],
    ],
    ids=["reversed", "other start", "closed", "repeated points", "a copy of it"],
)
def test_how_a_loop_is_written_changes_nothing(change):
    loops = change(star())
    structure = stack(loops, PLANES)
    check_same([run(structure)], [run(stack([star()], PLANES))])
    copies = ("7 contours of 'organ' are copies of others and were left out",)
    assert structure.notes == (copies if len(loops) > 1 else ())


def test_the_order_of_contours_and_other_structures_change_nothing():
    loops = [at(loop, z) for z in PLANES for loop in (circle(9), circle(3))]
    alone = run(contour_structure("organ", loops))
    check_same([run(contour_structure("organ", loops[::-1]))], [alone])
    both = [stack([circle(7.0)], PLANES, "other"), contour_structure("organ", loops)]
    check_same([dvh(DOSE, both, SETTINGS, device="cpu")["organ"]], [alone])


def test_points_on_the_lines_of_samples():
    """A square whose sides lie on rows and on voxels of the dose, drawn either way."""
    for loop in (square(10.0), square(10.0)[::-1], square(7.5, (2.5, 0.0))):
        half = (loop[:, 0].max() - loop[:, 0].min()) / 2
        for spacing in (0.5, 1.0, 2.5, 5.0):
            found = run(stack([loop], PLANES), DvhSettings(sampling=BySpacing(spacing_mm=spacing)))
            assert found.volume_cc == pytest.approx(4 * half**2 * 14 / 1000, rel=1e-4)


def test_a_vertex_on_a_row_counts_once():
    diamond = np.array([[0.0, -8.0], [8.0, 0.0], [0.0, 8.0], [-8.0, 0.0]])
    for spacing in (16.0, 8.0, 4.0, 2.0, 1.0):  # the middle row of an odd number meets two vertices
        assert (
            run(
                stack([diamond], [0.0], thickness_mm=1.0), DvhSettings(sampling=BySpacing(spacing_mm=spacing))
            ).volume_cc
            > 0.1
        )


@pytest.mark.parametrize(
    ("loops", "area", "rel"),
    [
        ([square(10), square(6), square(2)], 400 - 144 + 16, 1e-3),
        ([square(3, (-6, 0)), square(4, (6, 1))], 36 + 64, 1e-4),
    ],
    ids=["hole and island", "side by side"],
)
def test_loops_of_one_plane(loops, area, rel):
    assert run(stack(loops, PLANES)).volume_cc == pytest.approx(area * 14 / 1000, rel=rel)


def test_a_keyhole_is_a_hole():
    """Outer loop, a bridge to the inner loop, around it the other way, and the bridge back."""
    outer, inner = square(10), square(4)[::-1]
    keyhole = np.concatenate([outer, outer[:1], inner[-1:], inner, outer[:1]])
    keyed, holed = run(stack([keyhole], PLANES)), run(stack([outer, inner], PLANES))
    assert keyed.volume_cc == pytest.approx((400 - 64) * 14 / 1000, rel=1e-3)
    assert keyed.mean == pytest.approx(holed.mean, abs=1e-3)


def test_contours_of_too_few_points_are_left_out_with_a_note():
    loops = [at(circle(5), 0.0), at(circle(5), 2.0), [[0, 0, 2]], [[0, 0, 2], [1, 1, 2]], np.empty((0, 3))]
    structure = contour_structure("organ", loops)
    assert structure.notes == ("3 contours of 'organ' have fewer than three points and were left out",)
    assert run(structure).volume_cc == pytest.approx(np.pi * 25 * 4 / 1000, rel=1e-3)


def test_an_empty_structure_has_an_empty_histogram():
    found = run(contour_structure("nothing", []))
    assert found.is_empty
    assert found.volume_cc == 0.0
    assert np.isnan(found.mean)
    assert np.isnan(found.dose_at_percent(95))
    assert found.volume_at(1.0) == 0.0
    assert found.notes == ("'nothing' is empty",)


def test_slabs_and_caps():
    structure = stack([square(5)], [0.0, 2.0, 4.0, 7.0])
    np.testing.assert_allclose(slab_bounds(structure), [[-1, 1, 3, 5.5], [1, 3, 5.5, 8.5]])
    np.testing.assert_allclose(slab_bounds(structure, "none"), [[0, 1, 3, 5.5], [1, 3, 5.5, 7]])
    found = run(structure, DvhSettings(sampling=BySpacing(spacing_mm=0.7), caps="none"))
    assert found.volume_cc == pytest.approx(0.7, rel=1e-4)
    assert run(stack([square(5)], [0.0], thickness_mm=3.0)).volume_cc == pytest.approx(0.3, rel=1e-4)


def test_missing_planes_part_a_structure():
    structure = stack([square(5)], [0.0, 2.0, 4.0, 12.0, 14.0])
    low, high = slab_bounds(structure)
    np.testing.assert_allclose(low, [-1, 1, 3, 11, 13])
    np.testing.assert_allclose(high, [1, 3, 5, 13, 15])
    for interpolation in ("slab", "shape"):
        found = run(structure, DvhSettings(sampling=BySpacing(spacing_mm=0.7), interpolation=interpolation))
        assert found.volume_cc == pytest.approx(1.0, rel=5e-3)
        assert found.notes == ("'organ' has 1 gaps of up to 8 mm among contours 2 mm apart and is counted in 2 parts",)


@pytest.mark.parametrize("axes", [np.eye(3)[[2, 0, 1]], np.diag([1.0, -1.0, -1.0]), ROTATION])
def test_planes_of_any_orientation(axes):
    """A structure and a gradient that are turned together."""
    straight = run(stack([star()], PLANES))
    loops = [at(star(), z) @ axes.T for z in PLANES]
    turned = contour_structure("organ", loops)
    for axis in range(3):  # planes may come in the other order
        back, given = (np.sort(np.concatenate(points)[:, axis]) for points in (turned.world_loops, loops))
        np.testing.assert_allclose(back, given, atol=1e-9)
    found = run(turned, dose=linear_dose(axes @ (0.3, 0.5, 0.7), half=45.0))
    assert found.volume_cc == pytest.approx(straight.volume_cc, rel=1e-3)
    assert found.mean == pytest.approx(straight.mean, abs=5e-3)
    volumes = straight.volume_cc * np.array([0.02, 0.5, 0.95])
    np.testing.assert_allclose(found.dose_at(volumes), straight.dose_at(volumes), atol=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: contour_structure("organ", [[[0, 0, 0], [1, 0, np.nan], [1, 1, 0]]]), "not finite"),
        (lambda: contour_structure("organ", [[[0, 0], [1, 0], [1, 1]]]), r"has shape \(3, 2\); give points"),
        (
            lambda: contour_structure("organ", [[[0, 0, 0], [5, 0, 0], [5, 5, 1], [0, 5, 0]]]),
            r"leaves its plane by .* mm",
        ),
        (lambda: contour_structure("organ", [at(circle(9), 2e6)]), "coordinate of 2e.06 mm"),
        (lambda: run(stack([square(5)], [0.0])), r"'organ' has contours in a single plane.*give thickness_mm"),
        (
            lambda: run(stack([circle(30)], PLANES), DvhSettings(sampling=BySpacing(spacing_mm=0.01))),
            "choose a larger spacing_mm or accuracy",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("bad", "facts"),
    [
        (at(circle(5), 3.0)[:, [2, 1, 0]], ("1 contours", "leave their plane by up to 10 mm")),
        (at(circle(5), np.nan), ("1 contours", "not finite")),
        (at(circle(5), 1e7), ("1 contours", "1e+07 mm")),
    ],
    ids=["across", "not finite", "far"],
)
def test_a_contour_that_cannot_be_used_costs_only_itself(bad, facts):
    good = [at(circle(9), z) for z in PLANES]
    for loops in ([*good, bad], [bad, *good]):
        found = contour_structure("organ", loops)
        check_same([run(found)], [run(contour_structure("organ", good))])
        (note,) = found.notes
        assert says(note, *facts, "left out")


@pytest.mark.parametrize(
    ("distances", "gaps"),
    [
        ([6] * 3 + [3] * 7, []),
        ([3] * 7 + [6] * 2, []),
        ([1] * 4 + [5] * 3 + [1] * 4, []),
        ([3, 3, 6, 3, 3], [2]),
        ([2, 2, 20, 20, 2, 2], [2, 3]),
        ([2, 8], []),
        ([2, 2, 8], [2]),
        ([5, 2.5, 2.5, 5], []),
        ([6, 6, 3, 3, 6], []),
        ([2, 2, 2, 6, 6], []),
        ([3, 3, 15, 3, 3], [2]),
    ],
)
def test_a_distance_is_a_gap_if_those_around_it_are_shorter(distances, gaps):
    structure = stack([square(5)], np.cumsum([0.0, *distances]))
    assert list(np.flatnonzero(gaps_of(structure))) == gaps
    low, high = slab_bounds(structure)
    ends = [n + 1 for n in gaps]
    for first, last in pairwise([0, *ends, len(low)]):  # in each part slabs join
        np.testing.assert_allclose(high[first : last - 1], low[first + 1 : last])
    joined = dataclasses.replace(structure, joined_mm=tuple(structure.planes[n].position_mm for n in gaps))
    assert not gaps_of(joined).any()
    assert slab_bounds(joined)[1].sum() - slab_bounds(joined)[0].sum() == pytest.approx(
        sum(distances) + 0.5 * (distances[0] + distances[-1])
    )


@pytest.mark.parametrize(
    ("positions", "slice_mm", "groups"),
    [
        ([0, 0.16, 2, 2.16, 4, 4.16], None, [2, 2, 2]),
        ([0, 0.5, 2, 2.5, 4], None, [2, 2, 1]),
        ([0, 0.2, 0.4, 3, 6], None, [3, 1, 1]),
        ([0, 0.1], None, [2]),
        ([0, 0.3], None, [1, 1]),
        ([0, 0.3], 3.0, [2]),
        ([0, 0.3], 0, [1, 1]),
        ([0, 0.2, 3, 3.2], 0.2, [1, 1, 1, 1]),
        ([0, 0.7, 2, 2.7], None, [1, 1, 1, 1]),
        ([0, 1.2, 6, 7.2], None, [1, 1, 1, 1]),
        ([0, 1, 23, 24, 46, 47], None, [1] * 6),
        ([0, 1, 2, 3, 8, 13], None, [1] * 6),
        (np.arange(40) * 0.1, None, [1] * 40),
    ],
)
def test_planes_far_closer_than_slices_are_one(positions, slice_mm, groups):
    assert [len(group) for group in one_slice_each(np.array(positions, float), slice_mm)] == groups


def test_slices_of_others_tell_where_a_gap_is_none():
    own = stack([square(5)], [-9.0, -6, 0, 3, 6], "own")
    wide = stack([square(9)], [-18.0, -12, -6, 0, 3, 6, 9], "wide")
    every = stack([square(9)], np.arange(-18.0, 10, 3), "every")
    turned = contour_structure("turned", [at(square(9), z)[:, [2, 0, 1]] for z in (-6.0, -3, 0, 3)])
    for others, joined in (([], ()), ([wide], (-6.0,)), ([every], ()), ([wide, every], ()), ([turned], ())):
        assert with_slices([own, *others])[0].joined_mm == joined
    slices = np.array([(5.0, 5.0, z) for z in (-12.0, -6, 0, 3, 6)])
    assert with_slices([own], slices)[0].joined_mm == (-6.0,)
    assert with_slices([own], slices[:, [2, 0, 1]])[0].joined_mm == ()
    (single, _) = with_slices([stack([square(5)], [-12.0], "single"), wide])
    assert single.thickness_mm == 6.0


EVERY = np.arange(0.0, 31, 3)


@pytest.mark.parametrize(
    ("own", "others", "volume_cc"),
    [
        ([0, 30], EVERY, 0.1 * 6),
        ([0, 3, 30], EVERY, 0.1 * 9),
        ([0, 27, 30], EVERY, 0.1 * 9),
        ([0, 3, 15, 18, 30], EVERY, 0.1 * 15),
        ([0, 6, 9, 15, 18, 24, 27], EVERY, 0.1 * 21),
        ([0, 9, 18, 27], EVERY, 0.1 * 36),
        ([-18, -12, -6, 3, 6, 9], [-18, -12, -6, 0, 3, 6, 9], 0.1 * 27),
    ],
)
def test_slices_of_others_tell_where_a_gap_is(own, others, volume_cc):
    structures = stack([square(5)], own, "own"), stack([square(9)], others, "others")
    for known in (with_slices(structures)[0], with_slices(structures[:1], [(1.0, 2.0, z) for z in others])[0]):
        low, high = slab_bounds(known)
        assert 0.1 * (high - low).sum() == pytest.approx(volume_cc)
        assert any("slices between contours" in note for note in known.notes) == (own == [0, 9, 18, 27])
        again = contour_structure("own", known.world_loops, thickness_mm=known.thickness_mm, parted_mm=known.parted_mm)
        np.testing.assert_allclose(slab_bounds(again), (low, high))


def inside(points, loops):
    """Even-odd by a ray along x, point by point."""
    found = np.zeros(len(points), bool)
    for loop in loops:
        for (ax, ay), (bx, by) in zip(loop, np.roll(loop, -1, axis=0), strict=True):
            crosses = (ay <= points[:, 1]) != (by <= points[:, 1])
            with np.errstate(divide="ignore", invalid="ignore"):
                found ^= crosses & (points[:, 0] < ax + (points[:, 1] - ay) / (by - ay) * (bx - ax))
    return found


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_random_points_in_rough_shapes_agree(seed):
    """Many points at random in a star with a hole and a crossing loop, in a rough dose; z-scores."""
    rng = np.random.default_rng(seed)
    dose = Dose(values=rng.random((9, 9, 9)) * 50, affine=affine_of((3.0, 3.5, 2.5), (-12, -14, -10)), unit="Gy")
    loops = [star(seed), circle(3.0), star(seed + 10, 7) * 0.8]
    settings = DvhSettings(sampling=ByAccuracy(accuracy_percent=0.01), outside="exclude")
    found = run(stack(loops, PLANES, overlaps="xor"), settings, dose)
    count, low, high = 250_000, np.array([-12.0, -12.0, -7.0]), np.array([12.0, 12.0, 7.0])
    points = low + rng.random((count, 3)) * (high - low)
    points = points[inside(points, loops)]
    total = np.prod(high - low) / 1000
    share = len(points) / count
    assert abs(found.volume_cc / total - share) < 4 * np.sqrt(share * (1 - share) / count)
    index = (points - (-12, -14, -10)) / (3.0, 3.5, 2.5)
    values = map_coordinates(dose.values, index.T, order=1, mode="nearest")
    levels = np.quantile(values, [0.02, 0.3, 0.5, 0.7, 0.98])
    above = (values[:, None] >= levels).mean(axis=0)
    z = (found.percent_at(levels) / 100 - above) / np.sqrt(above * (1 - above) / len(values))
    assert np.abs(z).max() < 4
    assert abs(found.mean - values.mean()) < 4 * values.std() / np.sqrt(len(values))


def test_shape_interpolation_of_a_cone():
    """Between circles whose radii differ, the outline is a circle again: frusta instead of steps."""
    structure = contour_structure("cone", [at(circle(12 + z), z) for z in np.arange(-8.0, 8.1, 4.0)])
    found = run(structure, DvhSettings(interpolation="shape", caps="none"), linear_dose((0, 0, 1.0)))
    frustum = np.pi * 16 / 3 * (4**2 + 4 * 20 + 20**2) / 1000
    assert found.volume_cc == pytest.approx(frustum, rel=2e-3)
    above = np.pi / 3 * (20**3 - 12**3) / 1000
    assert found.volume_at(40.0) == pytest.approx(above, rel=3e-3)
    stepped = run(structure, DvhSettings(caps="none"), linear_dose((0, 0, 1.0)))
    assert abs(stepped.volume_cc / frustum - 1) > 0.01


def test_shape_interpolation_keeps_a_thin_shell():
    """Rings of neighboring planes that do not lie over each other: nothing would be between them."""
    planes = np.arange(-27.5, 30, 5)
    loops = [at(circle(np.sqrt(900 - z * z)), z) for z in planes]
    loops += [at(circle(np.sqrt(784 - z * z)), z) for z in planes if abs(z) < 28]
    found = run(contour_structure("shell", loops), DvhSettings(interpolation="shape"))
    assert found.volume_cc == pytest.approx(4 / 3 * np.pi * (30**3 - 28**3) / 1000, rel=0.03)
    (note,) = found.notes
    assert says(note, "'shell'", "6 places", "half way")


def test_shape_interpolation_keeps_holes_and_caps():
    found = run(stack([circle(10), circle(4)], PLANES), DvhSettings(interpolation="shape"))
    assert found.volume_cc == pytest.approx(np.pi * 84 * 14 / 1000, rel=3e-3)


@pytest.mark.parametrize("interpolation", ["slab", "shape"])
def test_contours_that_hold_nothing(interpolation):
    settings = DvhSettings(caps="none", interpolation=interpolation)
    assert run(stack([square(5)], [0.0], thickness_mm=2.0), settings).is_empty  # a single plane without caps
    line = np.array([[-3.0, 1.0], [4.0, 1.0], [1.0, 1.0]])
    settings = DvhSettings(interpolation=interpolation)
    assert run(stack([line], [0.0, 2.0, 4.0]), settings).volume_cc == pytest.approx(0.0, abs=1e-9)
    assert run(stack([line[:, ::-1]], [0.0, 2.0, 4.0]), settings).volume_cc == pytest.approx(0.0, abs=1e-9)
    assert run(stack([line, square(5)], [0.0, 2.0, 4.0])).volume_cc == pytest.approx(0.6, rel=1e-3)


def test_marching_squares_of_a_circle():
    axis = np.linspace(-1.3, 1.4, 80)
    segments = zero_level(np.hypot(*np.meshgrid(axis, axis, indexing="ij")) - 1.0, axis, axis)
    ends = segments.reshape(-1, 2)
    np.testing.assert_allclose(np.hypot(*ends.T), 1.0, atol=5e-4)
    _, counts = np.unique(ends.round(12), axis=0, return_counts=True)
    assert (counts == 2).all()  # closed
    assert np.hypot(*(segments[:, 2:] - segments[:, :2]).T).sum() == pytest.approx(2 * np.pi, rel=1e-3)


def tipped(tip, radius=6.0, positions=(0.0, 2.0, 4.0, 6.0)):
    loops = [at(tip, positions[0]), *(at(circle(radius), z) for z in positions[1:])]
    return contour_structure("organ", loops)


def test_a_structure_narrows_towards_a_tip():
    """The area falls linearly to a point: as much volume as in half a slab, and doses down to the point."""
    dose = linear_dose((0, 0, 1.0))
    found, stump = run(tipped(circle(0.01)), dose=dose), run(stack([circle(6.0)], (2.0, 4.0, 6.0)), dose=dose)
    assert found.volume_cc == pytest.approx(stump.volume_cc, rel=2e-3)  # half a slab, either way
    assert stump.least - found.least == pytest.approx(1.0, abs=0.05)
    half = found.volume_cc - found.volume_at(found.least + 1.0)  # of the 2 mm, the half towards the tip
    assert half == pytest.approx(np.pi * 36 * 0.25 / 1000, rel=0.02)
    assert found.notes == ("'organ' has an end with a contour of nearly no area, towards which it narrows smoothly",)


def test_a_small_last_contour_is_no_tip():
    found = run(tipped(circle(1.0)))
    assert not found.notes
    assert found.volume_cc == pytest.approx(np.pi * (36 * 6 + 2) / 1000, rel=1e-3)


def test_they_show_themselves():
    one = contour_structure("heart", [at(square(10), z) for z in PLANES])
    check_described(one, "structures")
    assert one.to_dataframe()["planes"].tolist() == [len(PLANES)]
