"""Walls that mass may not enter, and gates that it must pass: what is known exactly."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.regions import Box, Region
from napari_gpubio.fibers.flow import FlowSettings, flow, routes
from napari_gpubio.fibers.flow.gates import nodes_through
from tests.fibers.flow.flow_samples import ball, cross, ends_of_cross, field_of, flipped, grid, ring, straight

LEFT, RIGHT = ball("left", (-20, 0, 0)), ball("right", (20, 0, 0))
UPPER, LOWER = (Box(name=n, low_mm=(-4, y, -20), high_mm=(4, y + 20, 20)) for n, y in (("upper", 10), ("lower", -30)))
UPPER_THIN = Box(name="thin", low_mm=(-1, 0, -20), high_mm=(1, 40, 20))
WEST, EAST = ball("west", (-40, 0, 0)), ball("east", (30, 0, 0))


def wall(field, which, name="wall"):
    """Voxels whose indices fulfil something."""
    return Region(name=name, voxels=which(*np.indices(field.shape)), affine=field.affine)


def any_way(shape=(16, 16, 16), seed=0):
    """Three fixels of any direction in each voxel: mass goes everywhere."""
    affine, _ = grid(shape)
    directions = np.random.default_rng(seed).normal(size=(3, *shape, 3))
    return field_of([(np.ones(shape, bool), part) for part in directions], affine)


# -- walls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "which",
    [
        lambda i, j, k: i == 8,
        lambda i, j, k: i == j,  # its voxels share edges
        lambda i, j, k: i + j + k == 23,  # and these some edges, in no plane of the grid
        lambda i, j, k: i == 7 + (j % 2),
    ],
)
def test_nothing_passes_a_wall_of_one_voxel(which):
    field, settings = any_way(), FlowSettings(step_voxels=3.0, angle_deg=80.0, spread_deg=60.0, least_mass=0.0)
    closed = wall(field, which)
    labels = _sides(closed.voxels)
    one, other = (Region(name=str(n), voxels=labels == n, affine=field.affine) for n in (1, 2))
    assert one.voxels.sum() + other.voxels.sum() + closed.voxels.sum() == labels.size
    free = flow(field, [one, other], settings, device="cpu")
    found = flow(field, [one, other], settings, exclude=[closed], device="cpu")
    assert free.arrived[[0, 1], [1, 0]].min() > 0.2
    assert found.arrived[0, 1] == found.arrived[1, 0] == found.overlaps[0, 1] == 0.0
    assert found.mass(1)[labels != 1].max() == 0.0
    ended = found.endings(1)
    assert ended["in what is excluded"] > 0.05
    assert sum(ended.values()) == pytest.approx(1.0, abs=1e-5)


def _sides(closed):
    from scipy import ndimage

    labels, count = ndimage.label(~closed)
    assert count == 2
    return labels


def test_a_wall_across_a_straight_bundle_ends_the_half_that_meets_it():
    """Half leaves either way; what goes east ends at the wall, and that is said."""
    field = straight(0.0)
    across = Box(name="across", low_mm=(-1, -20, -20), high_mm=(1, 20, 20))
    found = flow(field, [WEST, EAST], exclude=[across], device="cpu")
    assert found.arrived[0, 1] == 0.0
    assert found.endings(1)["in what is excluded"] == pytest.approx(0.5, abs=0.01)
    assert "without across" in found.message
    beside = dataclasses.replace(across, low_mm=(-1, 9, -20))
    free = flow(field, [WEST, EAST], device="cpu")
    np.testing.assert_array_equal(flow(field, [WEST, EAST], exclude=[beside], device="cpu").arrived, free.arrived)


def test_excluded_parts_of_regions_send_and_get_nothing():
    """The east half of a ball is cut off: the rest sends as it does alone."""
    field = straight(0.0)
    cut = Box(name="cut", low_mm=(-40.5, -20, -20), high_mm=(-20, 20, 20))
    found = flow(field, [WEST, EAST], exclude=[cut], device="cpu")
    assert found.visits(1).sum() > 0
    inside = wall(field, lambda i, j, k: field.affine[0, 0] * i + field.affine[0, 3] > -40.5)
    assert found.mass(1)[inside.voxels].sum() == 0.0
    with pytest.raises(InvalidInput, match="no fixels outside of what is excluded"):
        flow(field, [WEST, EAST], exclude=[ball("around", (-40, 0, 0), 9)], device="cpu")


# -- gates ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arms():
    """Flows on a ring by both arms, and without the upper or the lower one."""
    settings = FlowSettings(max_length_mm=75.0)  # no mass goes round
    field, ends = ring(), [LEFT, RIGHT]
    return settings, *(flow(field, ends, settings, exclude=out, device="cpu") for out in ([], [UPPER], [LOWER]))


def test_a_gate_on_one_arm_of_a_ring_leaves_that_arm_alone(arms):
    settings, every, lower, upper = arms
    found = flow(ring(), [LEFT, RIGHT], settings, include=[UPPER], device="cpu")
    np.testing.assert_allclose(found.arrived, every.arrived - lower.arrived, atol=1e-12)
    assert found.arrived[0, 1] == pytest.approx(0.5 * every.arrived[0, 1], rel=1e-3)
    density, alone = found.fixel_density(1, 2), upper.fixel_density(1, 2)
    np.testing.assert_allclose(density, every.fixel_density(1, 2) - lower.fixel_density(1, 2), atol=1e-12)
    y = _heights(found.nodes)
    assert density[y < -12].max() < 1e-5 * density.max()  # what went past both ends and back
    between = y > 12  # no route of the lower arm comes there
    np.testing.assert_allclose(density[between], alone[between], rtol=1e-3, atol=1e-9)
    assert (density[between] > 0).any()
    assert found.overlaps[0, 1] == pytest.approx(found.nodes.strengths @ _roots(found), rel=1e-6)
    assert "through upper" in found.message
    assert found.matrices.matrix("arrivals")[0, 1] == pytest.approx(found.arrived[0, 1], rel=1e-6)


def _heights(nodes):
    from napari_gpubio.fibers.flow.paths import fixel_centers_mm

    return fixel_centers_mm(nodes)[:, 1]


def _roots(found):
    """Roots of the density of routes by sense, summed over both, on fixels."""
    every, shut = (found._on_nodes(1, masses) for masses in (found.masses, found.avoiding[0][1]))
    back = [found._on_nodes(2, m).reshape(-1, 2)[:, ::-1].ravel() for m in (found.masses, found.avoiding[0][1])]
    passing = every * back[0] - shut * back[1]
    passing[passing <= 1e-6 * every * back[0]] = 0.0
    return np.sqrt(passing).reshape(-1, 2).sum(axis=1)


def test_two_gates_on_two_arms_are_passed_only_by_what_goes_round(arms):
    """Up to 75 mm nothing passes both; two gates one behind the other are one gate."""
    settings, every, lower, _ = arms
    for ahead in (False, True):
        regions = [UPPER, LOWER] if not ahead else [UPPER, dataclasses.replace(UPPER, low_mm=(-9, 10, -20))]
        found = flow(ring(), [LEFT, RIGHT], settings, include=regions, device="cpu")
        expected = every.arrived[0, 1] - lower.arrived[0, 1] if ahead else 0.0
        assert found.arrived[0, 1] == pytest.approx(expected, abs=1e-6)
        assert (found.fixel_density(1, 2).max() > 1e-3 * every.fixel_density(1, 2).max()) == ahead
    assert [sign for sign, _ in nodes_through(ring(), settings, [LEFT, UPPER, LOWER])] == [1, -1, -1, 1, -1, 1, 1, -1]


def test_visits_where_a_gate_is_shut_are_a_part_of_all():
    field = any_way()
    gate = wall(field, lambda i, j, k: (i > 6) & (i < 9) & (j < 9), "gate")
    one, other = wall(field, lambda i, j, k: i < 3, "one"), wall(field, lambda i, j, k: i > 12, "other")
    found = flow(field, [one, other], FlowSettings(angle_deg=80.0, spread_deg=60.0), include=[gate], device="cpu")
    ((sign, shut),) = found.avoiding
    assert sign == -1
    assert (shut <= found.masses).all()
    assert (shut < found.masses).mean() > 0.1
    alone = flow(field, [one, other], FlowSettings(angle_deg=80.0, spread_deg=60.0), exclude=[gate], device="cpu")
    np.testing.assert_array_equal(shut[shut > 0], alone.masses)


@pytest.mark.parametrize("axes", [(0,), (0, 1, 2)])
def test_the_storage_of_the_arrays_changes_no_bit_with_walls(axes):
    field, gates = cross(60), {"include": [ball("middle", (0, 0, 0))], "exclude": [ball("south", (-8, -14, 0), 7)]}
    expected = flow(field, ends_of_cross(60), **gates, device="cpu")
    found = flow(flipped(field, axes), ends_of_cross(60), **gates, device="cpu")
    for name in ("arrived", "overlaps", "masses", "visited"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert expected.ranked(1)[0][1] == "east"
    assert expected.arrived[2, 3] < 0.1 * expected.arrived[0, 1]


def test_routes_take_the_arm_of_the_gate_and_not_that_of_the_wall():
    for gates in ({"include": [UPPER]}, {"exclude": [LOWER]}):
        found = routes(ring(jitter_deg=8.0), LEFT, RIGHT, **gates, device="cpu")
        assert len(found) == 1
        assert found.tractogram[0][:, 1].max() > 18
        assert found.tractogram[0][:, 1].min() > -5
        assert np.isfinite(found.widest)
    both = routes(ring(), LEFT, RIGHT, include=[UPPER], exclude=[UPPER_THIN], device="cpu")
    assert len(both) == 0
    assert np.isinf(both.widest)
    assert "through 'upper'" in both.message
    assert "in what is excluded" in both.message


def test_bad_gates_are_refused_with_a_sentence():
    field, ends = ring(), [LEFT, RIGHT]
    for gates, words in (
        ({"include": [UPPER] * 4}, "4 regions to pass; give 3 at most"),
        ({"include": [ball("hole", (0, 0, 0), 3)]}, "'hole' has no fixels, so no fibers pass it"),
        ({"include": [UPPER], "exclude": [UPPER]}, "'upper' has no fixels outside of what is excluded"),
        ({"exclude": [ball("far", (500, 0, 0), 3)]}, "'far' holds no center"),
    ):
        with pytest.raises(InvalidInput, match=words):
            flow(field, ends, **gates, device="cpu")
