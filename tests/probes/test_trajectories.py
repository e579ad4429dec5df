"""Trajectories against what the list of detected photons says of the same photons, and against geometry."""

import dataclasses
import functools
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Disk, Pencil
from napari_gpubio.probes.io.trajectories import load_trajectories, save_trajectories
from napari_gpubio.probes.trajectories import trajectories, trajectories_steps
from napari_gpubio.probes.trajectory_model import KINDS
from tests.light.voxel_samples import CYCLIC_SIDES, TISSUE, make_domain, turned_affine
from tests.runs import finished

DETECTORS = (Detector(position_mm=(4.0, 4.0, 0.0), radius_mm=3.0, name="near"), Detector(position_mm=(4.0, 4.0, 8.0)))
ARRAYS = ("photon", "starts", "position_mm", "weight", "time_ns", "kind", "vertex_counts")


def run(photons=400, detectors=DETECTORS, **changes):
    domain = changes.pop("domain", None) or make_domain((8, 8, 8), dataclasses.replace(TISSUE, mus_per_mm=3.0))
    source = Pencil(position_mm=changes.pop("position", (4.0, 4.0, -1.0)))
    return simulate(domain, source, LightSettings(photons=photons, **changes), detectors=detectors, device="cpu")


@functools.cache
def detected():
    return trajectories(run(), crossings=True)


def kinds(found, number):
    return [KINDS[kind] for kind in found.kind[found.vertices(number)]]


def test_detected_photons_went_the_ways_that_their_list_tells():
    found, listed = detected(), run().detected
    np.testing.assert_array_equal(found.photon, listed.photon)
    assert not found.is_cut.any()
    for number in range(len(found)):
        whole = found.vertices(number)
        ends = np.diff(found.position_mm[whole], axis=0)
        length = np.linalg.norm(ends, axis=1).sum()
        assert length == pytest.approx(listed.path_mm[number].sum(), rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(found.position_mm[whole][-1], listed.position_mm[number], atol=1e-5)
        assert found.weight[whole][-1] == listed.weight[number]
        assert found.time_ns[whole][-1] == listed.time_ns[number]
        assert kinds(found, number).count("scattered") == listed.scatterings[number]
        assert (kinds(found, number)[0], kinds(found, number)[-1]) == ("start", "escaped")
        assert (np.diff(found.weight[whole]) <= 1e-6).all()
        assert (np.diff(found.time_ns[whole]) >= -1e-9).all()


def test_between_vertices_the_weight_decays_with_the_path():
    found = detected()
    n, mua = TISSUE.n, TISSUE.mua_per_mm
    path = found.time_ns * 299.792458 / n
    start = found.weight[found.starts[:-1]]
    expected = np.repeat(start, np.diff(found.starts)) * np.exp(-mua * path)
    np.testing.assert_allclose(found.weight, expected, rtol=2e-5)


def test_faces_are_vertices_only_where_they_change_the_direction_unless_requested():
    few = trajectories(run())
    assert "crossed" not in {KINDS[kind] for kind in few.kind}
    assert "crossed" in {KINDS[kind] for kind in detected().kind}
    kept = detected().kind != KINDS.index("crossed")
    for name in ("position_mm", "weight", "time_ns", "kind"):
        np.testing.assert_array_equal(getattr(few, name), getattr(detected(), name)[kept])


def test_directions_change_at_vertices_as_reported():
    """A cube of glass without scattering: a ray is bent where it enters another glass, and reflected at the mirror."""
    labels = np.ones((6, 6, 6), np.uint8)
    labels[:, :, 3:] = 2
    media = Medium(label=1, n=1.2), Medium(label=2, n=1.5)
    domain = make_domain(labels, *media, outside_n=1.2)
    source = Pencil(position_mm=(1.0, 3.2, 0.5), direction=(1.0, 0.0, 1.0))
    settings = LightSettings(photons=20, faces=("default",) * 5 + ("mirror",))
    result = simulate(domain, source, settings, device="cpu")
    found = trajectories(result, 20)
    for number in range(20):
        names = kinds(found, number)
        if names[1] != "refracted":
            assert names[1] == "reflected"
            continue
        where = found.position_mm[found.vertices(number)]
        np.testing.assert_allclose(where[1], (3.5, 3.2, 3.0), atol=1e-4)
        sine = 1.2 / 1.5 * np.sqrt(0.5)
        ahead = (where[2] - where[1]) / np.linalg.norm(where[2] - where[1])
        assert ahead[0] == pytest.approx(sine, abs=1e-4)
    assert "refracted" in {KINDS[kind] for kind in found.kind}


def test_photons_that_are_not_detected_end_in_other_ways():
    result = run(2000, roulette_threshold=0.9, time_gates_ns=(0.0, 0.05))
    found = trajectories(result, 2000)
    assert len(found) == 2000
    last = {kinds(found, number)[-1] for number in range(2000)}
    assert last == {"escaped", "roulette", "truncated"}
    truncated = [n for n in range(2000) if kinds(found, n)[-1] == "truncated"]
    ends = found.time_ns[[found.vertices(n).stop - 1 for n in truncated]]
    assert (ends >= 0.05 - 1e-6).all()


def test_photons_that_miss_have_no_vertices():
    wide = Disk(position_mm=(4.0, 4.0, -1.0), radius_mm=9.0)
    result = simulate(make_domain((8, 8, 8)), wide, LightSettings(photons=200), device="cpu")
    found = trajectories(result, 200)
    missed = int((found.vertex_counts == 0).sum())
    assert missed == round(200 * result.energy.missed.value)
    assert 100 < missed < 180
    assert len({number for number, _ in found.lines()}) == 200 - missed


def test_lines_break_where_a_cyclic_grid_goes_on():
    result = run(50, faces=CYCLIC_SIDES, domain=make_domain((3, 3, 8)), position=(1.5, 1.5, -1.0), detectors=())
    found = trajectories(result, 50)
    names = {KINDS[kind] for kind in found.kind}
    assert {"left", "entered"} <= names
    lines = list(found.lines())
    assert len(lines) > 50
    for number, line in lines:
        assert found.vertices(number).start <= line.start < line.stop <= found.vertices(number).stop
        assert "entered" not in {KINDS[kind] for kind in found.kind[line][1:]}


def test_long_ways_are_cut():
    found = trajectories(run(), most_vertices=3)
    whole = trajectories(run())
    assert (np.diff(found.starts) <= 3).all()
    np.testing.assert_array_equal(found.vertex_counts, whole.vertex_counts)
    np.testing.assert_array_equal(found.is_cut, whole.vertex_counts > 3)
    np.testing.assert_array_equal(found.position_mm[found.vertices(2)], whole.position_mm[whole.vertices(2)][:3])


def test_positions_are_those_of_the_world():
    domain = make_domain((8, 8, 8), affine=turned_affine())
    place = tuple(domain.grid_to_world((4.0, 8.0, 0.0)))
    source = Pencil(position_mm=tuple(domain.grid_to_world((4.0, 8.0, -1.0))), direction=tuple(
        domain.direction_to_world((0, 0, 1))))  # fmt: skip
    detector = Detector(position_mm=place, radius_mm=4.0)
    result = simulate(domain, source, LightSettings(photons=300), detectors=[detector], device="cpu")
    found = trajectories(result)
    np.testing.assert_allclose(found.position_mm[found.starts[:-1]], np.tile(place, (len(found), 1)), atol=3e-3)
    last = found.position_mm[found.starts[1:] - 1]
    np.testing.assert_allclose(last, result.detected.position_mm, atol=1e-4)


def test_chunks_change_nothing_and_stop_keeps_what_is_done(in_chunks_of):
    in_chunks_of(7)
    found = trajectories(run(), crossings=True)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(detected(), name))
    stop = threading.Event()
    steps = trajectories_steps(run(), crossings=True, stop=stop)
    next(steps)
    stop.set()
    _, part = finished(steps)
    assert 0 < len(part) < len(found)
    np.testing.assert_array_equal(part.position_mm, found.position_mm[: len(part.position_mm)])


def test_chosen_photons_are_traced():
    result = run()
    near = trajectories(result, detectors=["near"], most_photons=5)
    np.testing.assert_array_equal(near.photon, result.detected.of(0).photon[:5])
    np.testing.assert_array_equal(trajectories(result, [7, 3, 3]).photon, [3, 7])


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ((0,), {}, "photons is 0"),
        ((401,), {}, "photons is 401"),
        (([400],), {}, "between 0 and 399"),
        (([-1],), {}, "between 0 and 399"),
        (([1.5],), {}, "some indices"),
        ((3,), {"detectors": [0]}, "give one of them"),
        ((), {"detectors": [7]}, "no detector 7"),
        ((3,), {"most_vertices": 0}, "most_vertices is 0"),
        ((), {"most_photons": 0}, "most_photons is 0"),
    ],
)
def test_what_cannot_be_traced_is_refused(arguments, changes, message):
    with pytest.raises(InvalidInput, match=message):
        trajectories(run(), *arguments, **changes)


def test_without_detected_photons_others_are_to_be_chosen():
    with pytest.raises(InvalidInput, match="no detected photons; choose others"):
        trajectories(run(detectors=()))


def test_files_hold_all_of_it(tmp_path):
    save_trajectories(tmp_path / "paths.npz", detected())
    found = load_trajectories(tmp_path / "paths.npz")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(detected(), name))
    np.testing.assert_array_equal(found.domain.labels, detected().domain.labels)
    assert found.parameters["crossings"] is True


@pytest.mark.parametrize("name", ["starts", "kind", "weight"])
def test_damaged_files_are_refused(tmp_path, name):
    changed = dataclasses.replace(detected(), **{name: getattr(detected(), name)[::-1][1:]})
    save_trajectories(tmp_path / "paths.npz", changed)
    with pytest.raises(InvalidInput, match=r"paths\.npz"):
        load_trajectories(tmp_path / "paths.npz")
