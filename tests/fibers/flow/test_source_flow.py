"""A source that moves: the regions that it reaches, and fibers along its routes."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.phantom.crossings import crossing
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.fibers.flow import FlowSettings, fibers_along, flow, routes, source_flow
from napari_gpubio.fibers.flow.source import ground_of, move_from
from napari_gpubio.tractograms.model import Tractogram
from tests.described import check_described
from tests.fibers.flow.flow_samples import ball, cross, ends_of_cross

NAMES = {5: "west", 7: "east", 11: "south", 12: "north"}


def atlas_of_ends(field):
    """The ends of the bundles of a crossing as labels."""
    centers = np.stack(np.indices(field.shape), -1) @ field.affine[:3, :3].T + field.affine[:3, 3]
    labels = np.zeros(field.shape, np.int16)
    for label, region in zip(NAMES, ends_of_cross(60), strict=True):
        labels[region.contains(centers.reshape(-1, 3)).reshape(field.shape)] = label
    return Atlas(labels=labels, affine=field.affine, names=NAMES)


@pytest.fixture(scope="module")
def field():
    return cross(60)


@pytest.fixture(scope="module")
def atlas(field):
    return atlas_of_ends(field)


def test_a_source_that_is_a_region_has_the_numbers_of_that_region(field, atlas):
    whole = flow(field, atlas, device="cpu")
    found = source_flow(field, atlas.region(5), atlas, device="cpu")
    np.testing.assert_array_equal(found.mass, whole.mass(5))
    np.testing.assert_array_equal(found.arrived[1:], whole.arrived[0, 1:])
    np.testing.assert_allclose(found.overlaps[1:], whole.overlaps[0, 1:], rtol=1e-12)
    np.testing.assert_allclose(found.scores[1:], whole.matrix()[0, 1:], rtol=1e-12)
    np.testing.assert_array_equal(found.density(7), whole.density(5, 7))
    best, *others, own = found.ranked()
    assert (best.rank, best.region, own.rank, own.region) == (1, "east", 0, "west")
    assert np.isnan([own.overlap, own.arrivals]).all()
    assert all(one.overlap < 0.5 * best.overlap for one in others)
    assert "lies in west" in " ".join(found.notes)


def test_through_a_gate_a_source_has_the_numbers_of_its_region(field, atlas):
    walls = {"include": [ball("middle", (0, 0, 0), 4)], "exclude": [ball("north", (12, 20, 0), 4)]}
    whole = flow(field, atlas, **walls, device="cpu")
    found = source_flow(field, atlas.region(5), atlas, **walls, device="cpu")
    np.testing.assert_allclose(found.arrived[1:], whole.arrived[0, 1:], atol=1e-12)
    np.testing.assert_allclose(found.overlaps[1:], whole.overlaps[0, 1:], rtol=1e-6)
    np.testing.assert_allclose(found.density(7), whole.density(5, 7), rtol=1e-6)
    assert found.mass.sum() < whole.mass(5).sum()


def test_without_the_flows_of_regions_a_source_is_ranked_by_arrivals(field, atlas):
    found = move_from(ground_of(field, atlas, FlowSettings()), ball("here", (-20, 0, 0)))
    assert found.overlaps is None
    assert not found.complete
    assert found.ranked()[0].region in ("east", "west")
    assert "by arrivals" in " ".join(found.notes)
    with pytest.raises(InvalidInput, match="not known yet"):
        found.density(7)


def test_a_source_needs_no_atlas_and_says_where_its_mass_ended(field):
    found = source_flow(field, ball("here", (-20, 0, 0)), device="cpu")
    assert found.ranked() == []
    assert found.mass.max() > 0
    assert "at the edge of the fixels" in found.message


def test_fibers_follow_the_route_that_they_are_seeded_on():
    sample = crossing(60)
    ends = ball("west", (-14, 0, 0), 3), ball("east", (14, 0, 0), 3)
    way = routes(sample.fixels, *ends, device="cpu").tractogram
    found = fibers_along(sample.fods, way, device="cpu")
    launched = found.parameters["launched"]
    assert 0.3 * launched < len(found) <= launched
    assert set(found.per_fiber["route"]) == {1}
    assert found.per_fiber["route_distance_mm"].max() <= 5.0
    for end in (way[0][0], way[0][-1]):
        assert max(np.linalg.norm(line - end, axis=1).min() for line in found) <= 10.0


def test_there_must_be_routes_to_follow():
    sample = crossing(60)
    none = Tractogram(points=np.zeros((0, 3), np.float32), offsets=np.zeros(1, int), affine=np.eye(4), shape=(1, 1, 1))
    with pytest.raises(InvalidInput, match="no routes"):
        fibers_along(sample.fods, none, device="cpu")


def test_it_and_routes_show_themselves(field, atlas):
    check_described(source_flow(field, atlas.region(5), atlas, device="cpu"), "ranked")
    check_described(routes(field, atlas.region(5), atlas.region(7), device="cpu"), "routes")
