"""Best paths along fixels: closed forms, the ring with two arms, flips, and what cannot be joined."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.fibers.flow import FlowSettings, RouteSettings, routes
from napari_gpubio.fibers.flow.nodes import nodes_of
from napari_gpubio.fibers.flow.paths import PathSearch, fixel_centers_mm
from tests.fibers.flow.flow_samples import ball, cross, ends_of_cross, flipped, grid, half_circle, ring, straight

SETTINGS = RouteSettings()


def path_between(field, start_mm, along_and_off):
    """The best path from the voxel nearest to a place to those near the end, and its numbers and cost.

    ``along_and_off``: distances of centers from the end along the fiber, and from the fiber through the start.
    """
    nodes = nodes_of(field, 0.45)
    centers = fixel_centers_mm(nodes)
    start = np.linalg.norm(centers - start_mm, axis=1).argmin()
    along, off = along_and_off(centers, centers[start])
    search = PathSearch(nodes, SETTINGS, np.array([start]), np.flatnonzero((np.abs(along) < 2.0) & (off < 0.9)))
    path, cost = search.best(nodes.strengths)
    return path.points_mm, search.numbers(path), cost


@pytest.mark.parametrize("angle", [0.0, 11.25, 22.5, 33.0, 45.0])
def test_paths_in_a_straight_bundle_have_no_error_of_the_grid(angle):
    u = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle)), 0.0])

    def from_end(x, start):
        return x @ u - 42.0, np.linalg.norm(x - start - ((x - start) @ u)[:, None] * u, axis=1)

    points, numbers, cost = path_between(straight(angle), -44 * u, from_end)
    along = (points - points[0]) @ u
    assert np.linalg.norm(points - points[0] - along[:, None] * u, axis=1).max() < 0.05
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    assert abs(length / along[-1] - 1) < 5e-4
    assert along[-1] > 80
    assert numbers.cost_per_mm == pytest.approx(1.0, abs=1e-3)
    assert numbers.weakest_link == pytest.approx(1.0, abs=1e-2)
    assert cost == pytest.approx(length * numbers.cost_per_mm, rel=1e-6)


@pytest.mark.parametrize(("radius", "limit"), [(40.0, 1e-3), (20.0, 1e-3), (12.0, 5e-3)])
def test_paths_on_circles_keep_to_them(radius, limit):
    field, place = half_circle(radius)

    def from_end(x, start):
        r = np.hypot(x[:, 0], x[:, 1])
        arc = radius * (np.arctan2(x[:, 1], x[:, 0]) - np.pi + 0.15)
        return arc, np.hypot(r - np.hypot(start[0], start[1]), x[:, 2] - start[2])

    points, numbers, _ = path_between(field, place(0.15), from_end)
    r, angle = np.hypot(points[:, 0], points[:, 1]), np.arctan2(points[:, 1], points[:, 0])
    assert np.hypot(r - r[0], points[:, 2] - points[0, 2]).max() < 0.05
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    assert abs(length / (r[0] * abs(angle[-1] - angle[0])) - 1) < limit
    assert numbers.sharpest_turn_deg_per_mm == pytest.approx(np.degrees(1 / r[0]), rel=0.1)


@pytest.mark.parametrize("jitter", [0.0, 8.0])
def test_both_arms_of_a_ring_are_found_with_their_shares(jitter):
    found = routes(ring(jitter_deg=jitter), ball("left", (-20, 0, 0)), ball("right", (20, 0, 0)), device="cpu")
    assert len(found) == 2
    shares = found.columns()["share"]
    assert shares[0] / shares[1] < (1.001 if jitter == 0 else 1.2)
    assert shares.sum() > 0.75
    upper, lower = sorted((line[:, 1].mean() for line in found.tractogram), reverse=True)
    assert upper == pytest.approx(-lower, abs=1.0)
    assert upper > 8
    assert found.message.startswith("2 routes from 'left' to 'right'")
    if jitter == 0:
        half = np.pi * 20
        assert np.abs(found.columns()["length_mm"] - half).max() < 6


def test_routes_go_straight_through_a_crossing():
    west, east, _south, north = ends_of_cross(60)
    field = cross(60)
    found = routes(field, west, east, device="cpu")
    assert len(found) == 1
    assert np.abs(found.tractogram[0][:, 1:]).max() < 0.5
    assert found.columns()["share"][0] > 0.8
    assert found.widest == pytest.approx(1.0, abs=0.2)
    assert found.density.max() == 1.0
    turned = routes(field, west, north, device="cpu")
    assert len(turned) == 0 or turned.widest > 1.5
    assert turned.arrivals < 0.05 * found.arrivals


def test_no_route_says_where_the_mass_ended():
    field = straight(0.0)
    _affine, x = grid(field.shape)
    gap = np.abs(x[..., 0]) < 8
    voxels = np.repeat(np.arange(field.counts.size), field.counts.ravel())
    kept = ~gap.ravel()[voxels]
    broken = dataclasses.replace(
        field,
        counts=np.where(gap, 0, field.counts),
        directions=field.directions[kept],
        amplitudes=field.amplitudes[kept],
        cache=type(field.cache)(),
    )
    found = routes(broken, ball("west", (-40, 0, 0)), ball("east", (40, 0, 0)), device="cpu")
    assert len(found) == 0
    assert found.table() == []
    assert np.isinf(found.widest)
    assert "at the edge of the fixels" in found.message
    losses = found.flow.losses(1)
    assert losses[np.abs(x[..., 0]) < 20].sum() > 0.2


def test_flips_of_the_arrays_change_nothing():
    field = ring(jitter_deg=8.0)
    ends = ball("left", (-20, 0, 0)), ball("right", (20, 0, 0))
    expected = routes(field, *ends, device="cpu")
    for axes in ((0,), (1,), (0, 1, 2)):
        found = routes(flipped(field, axes), *ends, device="cpu")
        np.testing.assert_array_equal(found.tractogram.points, expected.tractogram.points)
        assert found.widest == expected.widest
        np.testing.assert_array_equal(found.flow.arrived, expected.flow.arrived)


def test_routes_refuse_regions_that_are_not_apart():
    field = cross(90)
    west = ends_of_cross()[0]
    with pytest.raises(InvalidInput, match="inside of"):
        routes(field, west, west, device="cpu")
    with pytest.raises(InvalidInput, match="outside the volume"):
        routes(field, west, ball("far", (500, 0, 0)), device="cpu")
    near = routes(field, west, ball("near", (-20, 0, 0)), RouteSettings(flow=FlowSettings()), device="cpu")
    assert near.notes[0].endswith("voxels of both regions are left out.")


def test_tables_are_sorted_and_written(tmp_path):
    found = routes(ring(jitter_deg=8.0), ball("left", (-20, 0, 0)), ball("right", (20, 0, 0)), device="cpu")
    assert [row["route"] for row in found.table("length_mm", descending=False)] in ([1, 2], [2, 1])
    with pytest.raises(InvalidInput, match="no column 'size'"):
        found.table("size")
    found.save_csv(tmp_path / "routes.csv")
    lines = (tmp_path / "routes.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("route,share,length_mm")
    assert len(lines) == 3
