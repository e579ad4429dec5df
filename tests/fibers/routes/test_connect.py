"""Routes between two regions of the brain phantom."""

import csv
import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion import FodField, fit_tensors, io, phantom
from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.phantom.crossings import crossing
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.fibers import connect, connect_steps, flow
from napari_gpubio.fibers.directions import Cone
from napari_gpubio.fibers.routes import ConnectSettings, LeaveOut
from napari_gpubio.fibers.routes.model import COLUMNS
from napari_gpubio.fibers.routes.scores import route_scores
from napari_gpubio.fibers.run import track
from napari_gpubio.fibers.settings import EuDX, Hamiltonian
from napari_gpubio.tractograms.maps import mask
from napari_gpubio.tractograms.model import StopReason

LEFT, RIGHT, NEAR = (Sphere(name=name, center_mm=(x, -5, 22), radius_mm=4) for name, x in
                     (("left", -8), ("right", 8), ("near", -5)))  # fmt: skip
FAN = Cone(count=12, half_angle_deg=30.0)


@pytest.fixture(scope="module")
def field():
    return fit_tensors(phantom.load_brain_phantom(), device="cpu")


@pytest.fixture(scope="module")
def routes(field):
    return connect(field, LEFT, RIGHT, directions=FAN, device="cpu")


def test_all_fibers_lead_from_one_region_to_the_other(routes, field):
    fibers = routes.tractogram
    assert len(fibers) > 15
    for place, region in ((fibers.offsets[:-1], LEFT), (fibers.offsets[1:] - 1, RIGHT)):
        away = np.linalg.norm(fibers.points[place] - region.center_mm, axis=1)
        assert (away <= region.radius_mm + np.sqrt(3) * 2.75 / 2 + 0.01).all()  # to a corner
    assert (fibers.per_fiber["stop_reason"] == StopReason.TARGET).all()


def test_what_the_fan_alone_reaches_is_among_them(routes, field):
    seeds = np.unique(np.round(routes.tractogram.points[routes.tractogram.offsets[:-1]].astype(float), 3), axis=0)
    fan = track(field, seeds, dataclasses.replace(FAN, both_ways=False), target=RIGHT, only_target=True, device="cpu")
    found = routes.tractogram.select(routes.tractogram.per_fiber["solved"] == 0)
    apart = np.abs(fan.per_fiber["length_mm"][:, None] - found.per_fiber["length_mm"])
    assert len(fan) > 10
    assert apart.min(axis=1).max() < 0.01


def test_near_misses_are_turned_until_they_arrive(routes, field):
    alone = connect(field, LEFT, RIGHT, ConnectSettings(near_misses=LeaveOut()), FAN, device="cpu")
    solved = routes.tractogram.per_fiber["solved"]
    assert alone.tractogram.per_fiber["solved"].sum() == 0
    assert len(routes.tractogram) == len(alone.tractogram) + solved.sum()
    assert 0 < solved.sum() <= routes.search.near_misses


def test_routes_are_ranked_and_their_fibers_alike(routes, tmp_path):
    columns, table = routes.columns(), routes.table()
    assert np.all(np.diff([row["score"] for row in table]) <= 0)
    assert columns["fibers"].sum() == len(routes.tractogram)
    per_fiber = routes.tractogram.per_fiber
    np.testing.assert_allclose(columns["speed"], columns["length_mm"] / columns["riemannian_length_mm"], rtol=1e-5)
    assert (columns["weakest_link"] * columns["speed"] >= 0.95).all()  # the largest cost is not below the mean one
    for n in range(len(routes)):
        assert per_fiber["score"][per_fiber["route"] == n + 1].max() == columns["score"][n]
    shortest = routes.table("length_mm", descending=False)
    assert shortest[0]["length_mm"] == min(row["length_mm"] for row in table)
    routes.save_csv(tmp_path / "routes.csv")
    with (tmp_path / "routes.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert [int(row["route"]) for row in rows] == [row["route"] for row in table]


def test_fods_tell_how_much_of_the_way_crosses(field):
    two = harmonics([(1, 0, 0), (0, 1, 0)], 8).sum(axis=0)
    for coefficients, share in ((two, "100 %"), (harmonics([(1, 0, 0)], 8)[0], "0 %")):
        fods = FodField(
            coefficients=np.tile(coefficients.astype(np.float32), (*field.shape, 1)),
            mask=np.ones(field.shape, bool),
            affine=field.affine,
        )
        found = connect(field, LEFT, RIGHT, ConnectSettings(near_misses=LeaveOut()), FAN, fods=fods, device="cpu")
        assert [f"On {share} of the way" in note for note in found.notes] == [True]


def test_the_score_falls_with_the_distance_from_streamlines():
    score = route_scores(np.array([0.6, 0.6, 0.6]), np.array([0.0, 1.0, np.nan]))
    np.testing.assert_allclose(score, [0.6, 0.6 / np.e, 0.6], rtol=1e-6)


def test_the_bundle_keeps_to_the_tract_that_joins_the_regions(routes, field):
    best = routes.fibers(1)
    assert np.median(best.per_fiber["mean_fa"]) > 0.4
    assert mask(best, device="cpu").any()


def test_nothing_found_says_why(field):
    found = connect(field, LEFT, Sphere(name="far", center_mm=(0, 40, 0), radius_mm=3),
                    tracking=Hamiltonian(max_length_mm=12.0), directions=FAN, device="cpu")  # fmt: skip
    assert len(found) == 0
    assert found.search.nearest_mm.sum() == sum(found.search.stops.values()) <= found.search.sampled
    assert "far" in found.message
    assert "at the maximum length" in found.message
    assert found.table() == []


def test_what_both_regions_hold_belongs_to_neither(field):
    found = connect(field, LEFT, NEAR, directions=FAN, device="cpu")
    assert "both regions" in found.notes[0]
    apart = connect(field, LEFT, RIGHT, ConnectSettings(near_misses=LeaveOut()), FAN, device="cpu")
    assert found.search.seeds < apart.search.seeds


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (dataclasses.replace(LEFT, name="again"), "the same"),
        (dataclasses.replace(LEFT, radius_mm=2.0), "inside of"),
        (Sphere(name="away", center_mm=(900, 0, 0), radius_mm=3), "outside the volume"),
        (Sphere(name="air", center_mm=(66, -102, -58), radius_mm=3), "air"),
    ],
)
def test_regions_that_cannot_be_connected_are_refused(field, target, what):
    with pytest.raises(InvalidInput, match=what):
        connect(field, LEFT, target, device="cpu")


def test_in_fixels_and_fods_routes_are_those_of_the_flow():
    sample = crossing(60)
    west, east = (Sphere(name=name, center_mm=(x, 0, 0), radius_mm=3) for name, x in (("west", -14), ("east", 14)))
    expected = flow.routes(sample.fixels, west, east, device="cpu")
    found = connect(sample.fixels, west, east, device="cpu")
    np.testing.assert_array_equal(found.tractogram.points, expected.tractogram.points)
    assert found.table() == expected.table()
    assert len(connect(sample.fods, west, east, flow.RouteSettings(max_routes=1), device="cpu")) == 1
    with pytest.raises(InvalidInput, match=r"settings of a FixelField are fibers\.flow\.RouteSettings"):
        connect(sample.fixels, west, east, ConnectSettings(), device="cpu")
    with pytest.raises(InvalidInput, match="of routes in tensors; leave them out"):
        connect(sample.fixels, west, east, tracking=EuDX(), device="cpu")


def test_streamlines_and_a_stop(field):
    straight = connect(field, LEFT, RIGHT, tracking=EuDX(), device="cpu")
    assert straight.tractogram.per_fiber["solved"].sum() == 0
    stop = threading.Event()
    steps = connect_steps(field, LEFT, RIGHT, directions=FAN, device="cpu", stop=stop)
    next(steps)
    stop.set()
    assert not drive(steps).complete


def test_an_atlas_names_the_regions(field):
    atlas = io.read_atlas(sample_path("brain_phantom/atlas.nii.gz"))
    found = connect(field, atlas.region(3), atlas.region(21), directions=FAN, device="cpu")
    assert (found.source, found.target) == ("motor cortex, left", "brain stem")
