"""Loops of one structure that overlap in part are united; holes, neighbors and what is to be cut out stay."""

import numpy as np
import pytest
from napari.layers import Shapes

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import BySpacing, DvhSettings, contour_structure, dvh
from napari_gpubio.dose.io import read_rtstruct
from napari_gpubio.dose.napari_io import contours_layer, contours_of
from napari_gpubio.dose.structures.overlaps import inside_loop, overlapping, united
from tests.dose.dicom_files import save_structures
from tests.dose.samples import PLANES, at, circle, linear_dose, square, stack

ANY_FRAME = DvhSettings(any_frame=True)
DEPTH = 14.0  # of a stack of PLANES, mm
C_OPEN_RIGHT = np.array([[-8, -8], [2, -8], [2, -5], [-5, -5], [-5, 5], [2, 5], [2, 8], [-8, 8]], float)


def area_of(loops, **more):
    found = dvh(
        linear_dose((0, 0, 1.0)),
        stack(loops, PLANES, **more),
        DvhSettings(sampling=BySpacing(spacing_mm=0.5)),
        device="cpu",
    )
    return 1000 * found["organ"].volume_cc / DEPTH, found["organ"].notes


@pytest.mark.parametrize(
    ("loops", "area", "overlap"),
    [
        ([square(4), square(4, (3, 2))], 64 + 64 - 30, True),
        ([square(4), square(4, (3, 0))], 64 + 64 - 40, True),  # with edges on each other
        ([square(4), square(4, (3, 0)), square(4, (6, 0))], 14 * 8, True),
        ([square(4), square(4, (3, 2))[::-1]], 64 + 64 - 30, True),
        ([C_OPEN_RIGHT, -C_OPEN_RIGHT], 16 * 16 - 10 * 10, True),  # a ring
        ([square(4), square(2, (-2, 0))], 64 - 16, False),  # a hole at the border
        ([square(4), square(4, (8, 0))], 128, False),  # neighbors that touch
        ([square(8), square(3, (-3, 0)), square(2, (3, 0))], 256 - 36 - 16, False),
    ],
    ids=["corners", "edges", "three", "reversed", "ring", "hole at the border", "neighbors", "two holes"],
)
def test_area_of_loops(loops, area, overlap):
    found, notes = area_of(loops)
    assert found == pytest.approx(area, rel=1e-3)
    assert bool(notes) == overlap
    if overlap:
        assert "7 times" in notes[0]
        assert "united" in notes[0]


def test_by_the_even_odd_rule_what_both_hold_is_left_out():
    found, notes = area_of([square(4), square(4, (3, 2))], overlaps="xor")
    assert found == pytest.approx(128 - 2 * 30, rel=1e-3)
    assert notes == ()


@pytest.mark.parametrize("seed", range(8))
def test_a_union_holds_what_one_of_the_loops_holds(seed):
    rng = np.random.default_rng(seed)
    loops = [circle(rng.uniform(4, 4.5), int(rng.integers(5, 40)), rng.uniform(-4, 4, 2)) for _ in range(4)]
    groups = overlapping(loops)
    assert groups
    points = rng.uniform(-10, 10, (4000, 2))
    for group in groups:
        members = [loops[n] for n in group]
        around = np.sum([inside_loop(points, loop) for loop in united(members)], axis=0) % 2 == 1
        np.testing.assert_array_equal(around, np.any([inside_loop(points, loop) for loop in members], axis=0))


@pytest.mark.parametrize("seed", range(6))
def test_a_union_of_keyholes_leaves_out_what_is_in_none_of_them(seed):
    rng = np.random.default_rng(seed)
    rings, keyholes = [], []
    for center, radius in zip(rng.uniform(-6, 6, (3, 2)), rng.uniform(3, 7, 3), strict=True):
        outer, inner = circle(radius, 30, center), circle(radius * rng.uniform(0.3, 0.7), 20, center)[::-1]
        rings.append((outer, inner))
        keyholes.append(np.concatenate([outer, outer[:1], inner, inner[:1]]))
    points = rng.uniform(-14, 14, (4000, 2))
    around = np.sum([inside_loop(points, loop) for loop in united(keyholes)], axis=0) % 2 == 1
    expected = np.any([inside_loop(points, outer) & ~inside_loop(points, inner) for outer, inner in rings], axis=0)
    np.testing.assert_array_equal(around, expected)


@pytest.mark.parametrize(
    ("loops", "area"),
    [
        ([square(10), square(4), square(4, (10, 0))], 400 - 64 + 32),
        ([square(10), square(4), square(5, (8, 0))], 400 - 64 + 30 + 8),
        ([square(10), square(4), square(2), square(4, (10, 0))], 400 - 64 + 16 + 32),
    ],
    ids=["across the border", "across border and hole", "an island"],
)
def test_a_hole_stays_where_no_other_loop_lies(loops, area):
    found, (note,) = area_of(loops)
    assert found == pytest.approx(area, rel=1e-3)
    assert "united" in note


def test_the_type_of_contours_in_a_file_decides(tmp_path):
    loops = [at(square(4), 0.0), at(square(4, (3, 2)), 0.0), at(square(4), 2.0)]
    drawn = [(name, [(kind, loop) for loop in loops]) for name, kind in
             (("joined", "CLOSED_PLANAR"), ("cut", "CLOSEDPLANAR_XOR"))]  # fmt: skip
    structures = read_rtstruct(save_structures(tmp_path / "s.dcm", drawn))
    found = dvh(linear_dose((0, 0, 1.0)), structures, ANY_FRAME, device="cpu")  # a whole set
    assert [1000 * one.volume_cc for one in found] == pytest.approx([2 * (98 + 64), 2 * (68 + 64)], rel=1e-3)
    assert [len(one.notes) for one in found] == [1, 0]
    both = dvh(linear_dose((0, 0, 1.0)), read_rtstruct(tmp_path / "s.dcm", overlaps="xor"), ANY_FRAME, device="cpu")
    assert both["joined"].volume_cc == both["cut"].volume_cc == found["cut"].volume_cc


def test_many_loops_of_one_plane_take_little_time():
    """A grid of 900 loops, each beside its neighbors, and two that overlap."""
    loops = [square(0.4, (x, y)) for x in range(30) for y in range(30)]
    assert overlapping(loops) == []
    assert overlapping([*loops, square(0.4, (0.3, 0.0))]) == [[0, 30, 900]]


def test_layers_keep_what_a_file_says_of_overlaps():
    loops = [square(4), square(4, (3, 2))]
    cut, joined = stack(loops, PLANES, "cut", overlaps="xor"), stack(loops, PLANES, "joined")
    data, keywords, _ = contours_layer([cut, joined], "structures")
    found = contours_of(Shapes(data, **keywords), linear_dose((0, 0, 1.0)))
    areas = [1000 * one.volume_cc / DEPTH for one in dvh(linear_dose((0, 0, 1.0)), found, device="cpu")]
    assert areas == pytest.approx([68, 98], rel=1e-3)


@pytest.mark.parametrize(
    "copy",
    [circle(6.0) + 1e-4, circle(6.0).round(2), circle(6.0, 200), circle(6.0) * 1.0001],
    ids=["shifted", "rounded", "fewer points", "larger"],
)
@pytest.mark.parametrize("overlaps", ["union", "xor"])
def test_a_loop_that_is_written_twice_counts_once(copy, overlaps):
    found, notes = area_of([circle(6.0), copy], overlaps=overlaps)
    assert found == pytest.approx(np.pi * 36, rel=2e-3)
    assert notes == ("7 contours of 'organ' are copies of others and were left out",)


def test_a_thin_shell_is_none():
    found, notes = area_of([circle(6.0), circle(5.95)])
    assert found == pytest.approx(np.pi * (36 - 5.95**2), rel=0.02)
    assert notes == ()


def test_points_too_far_away_are_refused():
    with pytest.raises(InvalidInput, match=r"has a coordinate of 1e\+20.* mm; give lengths in mm"):
        contour_structure("organ", [1e200 * at(circle(1.0), 0.0)])


def test_another_word_for_overlaps_is_refused():
    with pytest.raises(InvalidInput, match="overlaps of 'organ' is 'both'; give 'union' or 'xor'"):
        contour_structure("organ", [at(square(4), 0.0)], overlaps="both")
