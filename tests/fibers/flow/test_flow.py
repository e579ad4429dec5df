"""The flow between regions: what is known exactly, matrices and files, bad input, and the phantom."""

import dataclasses
import sys
import threading

import numpy as np
import pytest
from scipy.spatial import KDTree

from napari_gpubio import diffusion
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion import FixelField
from napari_gpubio.diffusion.regions import Atlas, Region, Sphere
from napari_gpubio.fibers.flow import FlowMatrices, FlowSettings, flow, flow_steps, routes
from napari_gpubio.fibers.flow.gates import nodes_through
from napari_gpubio.fibers.flow.run import needed_memory, transport_problem
from napari_gpubio.fibers.kernels.transport.cpu import transport_of
from tests.fibers.flow.flow_samples import ball, cross, ends_of_cross, flipped, grid, ring, straight, voxel_region
from tests.runs import finished

ENDS = ("west", "east", "south", "north")


@pytest.fixture(scope="module")
def crossed():
    return flow(cross(60), ends_of_cross(60), device="cpu")


# -- what is known exactly --------------------------------------------------------------------------------------------


def test_mass_is_kept_or_accounted_for(crossed):
    for label in range(1, 5):
        ended = crossed.endings(label)
        assert sum(ended.values()) == pytest.approx(1.0, abs=1e-6)
        assert ended["at the edge of the fixels"] > 0.8  # bundles end at the border of the volume
        assert crossed.losses(label).sum() == pytest.approx(
            ended["at the edge of the fixels"] + ended["no fixel within the angle"], rel=1e-5
        )


def test_half_of_the_mass_arrives_at_the_far_end_of_a_straight_bundle():
    """Half leaves either way, and none is lost on the way along the axis of the grid."""
    field = straight(0.0)
    found = flow(field, [ball("west", (-40, 0, 0)), ball("east", (30, 0, 0))], device="cpu")
    assert found.matrix("one_way")[0, 1] == pytest.approx(0.5, abs=0.05)  # some steps across the ball
    density = found.density(1, 2)
    _, x = grid(field.shape)
    between = density[np.abs(x[..., 0]) < 20]
    assert between.max() > 0.3
    assert density[(np.linalg.norm(x[..., 1:], axis=-1) > 5.1)].max() == 0


def test_mass_goes_through_a_crossing(crossed):
    matrix = crossed.matrix()
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (np.diag(matrix) == 0).all()
    for label, partner in ((1, "east"), (2, "west"), (3, "north"), (4, "south")):
        ranked = crossed.ranked(label)
        assert ranked[0][1] == partner
        assert ranked[1][2] < 0.1 * ranked[0][2]
    ranks = crossed.ranks()
    assert ranks[0, 1] == 1
    assert ranks[0, 2:].min() == 2


def test_the_density_lies_on_the_fixels_of_the_pair(crossed):
    fixels = crossed.fixels(1, 2)
    flow_ = fixels.numbers["flow"]
    assert flow_.max() == 1.0
    along = np.abs(fixels.directions[:, 0]) > 0.99
    assert flow_[along].sum() > 0.98 * flow_.sum()
    density = crossed.density(1, 2)
    assert density.shape == crossed.shape
    np.testing.assert_array_equal(density > 0, crossed.density(2, 1) > 0)


def test_the_length_is_limited_and_told():
    field, west, east = straight(0.0), ball("west", (-40, 0, 0)), ball("east", (30, 0, 0))
    short = flow(field, [west, east], FlowSettings(max_length_mm=40.0), device="cpu")
    assert short.max_length_mm == pytest.approx(40.0)
    assert short.step_mm == pytest.approx(8.0)
    assert short.matrix("one_way")[0, 1] == 0
    assert short.endings(1)["went 40 mm"] == pytest.approx(0.5, abs=0.05)
    assert "up to 40 mm" in short.message


def test_mass_circulates_on_a_ring_until_the_limit():
    found = flow(ring(), [ball("left", (-20, 0, 0)), ball("right", (20, 0, 0))], device="cpu")
    assert found.matrix("one_way")[0, 1] > 1.0
    assert found.endings(1)["went 400 mm"] > 0.5


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1, 2)])
def test_the_storage_of_the_arrays_changes_no_bit(axes, crossed):
    found = flow(flipped(cross(60), axes), ends_of_cross(60), device="cpu")
    for name in ("arrived", "overlaps", "masses", "visited"):
        np.testing.assert_array_equal(getattr(found, name), getattr(crossed, name))
    np.testing.assert_array_equal(np.flip(found.density(1, 2), axes), crossed.density(1, 2))
    np.testing.assert_array_equal(np.flip(found.mass(3), axes), crossed.mass(3))


def test_regions_alone_or_together_give_the_same(crossed):
    field = cross(60)
    for n, region in enumerate(ends_of_cross(60)):
        alone = flow(field, [region], device="cpu")
        np.testing.assert_array_equal(alone.visits(1), crossed.visits(n + 1))


def test_the_matrix_of_a_field_is_made_once(monkeypatch):
    from napari_gpubio.fibers.kernels.transport import cpu

    field, made = cross(60), []
    once = cpu._make_transport
    monkeypatch.setattr(cpu, "_make_transport", lambda problem: made.append(1) or once(problem))
    for settings in (FlowSettings(), FlowSettings(max_length_mm=50.0), FlowSettings(angle_deg=30.0)):
        flow(field, ends_of_cross(60), settings, device="cpu")
    assert len(made) == 2


# -- other inputs -----------------------------------------------------------------------------------------------------


def test_fods_and_tensors_flow_too():
    scan = diffusion.phantom.load_brain_phantom()
    left, right = ball("left", (-12, -5, 20), 4), ball("right", (12, -5, 20), 4)
    for field in (diffusion.fit_tensors(scan, device="cpu"), diffusion.deconvolve(scan, device="cpu")):
        found = flow(field, [left, right, ball("front", (0, 30, 10), 6)], device="cpu")
        assert found.ranked(1)[0][1] == "right"
    with pytest.raises(InvalidInput, match="a DiffusionScan was given"):
        flow(scan, [left, right], device="cpu")


def test_an_atlas_of_another_grid_keeps_its_names():
    field = cross(60)
    affine, x = grid((70, 70, 20), 1.0)
    labels = np.zeros(x.shape[:3], np.int16)
    for label, region in zip((5, 7, 11, 12), ends_of_cross(60), strict=True):
        labels[region.contains(x.reshape(-1, 3)).reshape(labels.shape)] = label
    atlas = Atlas(labels=labels, affine=affine, names={5: "west", 7: "east", 12: "north"})
    found = flow(field, atlas, device="cpu")
    assert found.names == ("west", "east", "11", "north")
    assert found.labels.tolist() == [5, 7, 11, 12]
    assert next(name for _, name, _ in found.ranked(12)) == "11"
    with pytest.raises(InvalidInput, match="no label 6"):
        found.ranked(6)


def test_two_thousand_labels_fit():
    field = ring()
    affine, _x = grid(field.shape)
    labels = np.where(field.mask, np.cumsum(field.mask.ravel()).reshape(field.shape) % 2000 + 1, 0)
    found = flow(field, Atlas(labels=labels, affine=affine), FlowSettings(max_length_mm=60.0), device="cpu")
    assert len(found) == min(2000, np.count_nonzero(field.mask))
    assert len(found.visited) < len(found) * found.nodes.count / 4
    assert np.isfinite(found.matrix()).all()


# -- results ----------------------------------------------------------------------------------------------------------


def test_matrices_are_written_and_read(crossed, tmp_path):
    crossed.save_csv(tmp_path / "x.csv", crossed.matrix())
    lines = (tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",west,east,south,north"
    crossed.matrices.save(tmp_path / "flow.npz")
    found = FlowMatrices.load(tmp_path / "flow.npz")
    for of in ("overlap", "arrivals", "one_way", "plain_overlap"):
        np.testing.assert_array_equal(found.matrix(of), crossed.matrix(of))
    assert found.names == ENDS
    assert found.parameters["flow"]["step_voxels"] == 4.0
    with pytest.raises(InvalidInput, match="no matrix 'count'"):
        found.matrix("count")
    np.savez(tmp_path / "other.npz", labels=np.zeros(3))
    with pytest.raises(InvalidInput, match=r"other\.npz"):
        FlowMatrices.load(tmp_path / "other.npz")


def test_a_flow_that_is_stopped_keeps_what_was_done():
    stop = threading.Event()
    steps = flow_steps(cross(60), ends_of_cross(60) * 3, device="cpu", stop=stop)
    next(steps)
    next(steps)
    stop.set()
    _, found = finished(steps)
    assert not found.complete
    assert np.isnan(found.arrived[-1]).all()
    assert np.isfinite(found.matrix()[:4, :4]).all()
    assert np.isnan(found.matrix()[0, -1])


def test_memory_is_told():
    assert needed_memory(cross(60), ends_of_cross(60), device="cpu").total > 1e5


@pytest.mark.parametrize("gates", [0, 1, 2])
def test_memory_has_a_copy_of_the_weights_for_each_set_of_gates_that_is_shut(gates):
    fixels, regions = cross(60), ends_of_cross(60)
    include = [Sphere(name=str(n), center_mm=(2.0 * n, 0, 0), radius_mm=3) for n in range(gates)]
    exclude = [Sphere(name="wall", center_mm=(9, 0, 0), radius_mm=2)]
    ways = nodes_through(fixels, FlowSettings(), include, exclude)
    problem, _ = transport_problem(fixels, regions, FlowSettings())
    made = [transport_of(dataclasses.replace(problem, nodes=nodes)) for _, nodes in ways]
    assert len(made) == 2**gates
    steps = ways[0][1].walls.cache.get((*problem.key, "steps", "cpu"), list)
    held = ways[0][1].walls.marks.nbytes + sum(one.nbytes for one in (*steps[:2], *steps[2]))
    entries = 8 * problem.nodes.count / len(made[0].values)  # as estimated, over those there are
    copies = sum(one.values.nbytes for one in made)
    plain = needed_memory(fixels, regions, device="cpu")
    walled = needed_memory(fixels, regions, include=include, exclude=exclude, device="cpu")
    assert walled.inputs - plain.inputs == pytest.approx(held + entries * copies)


# -- bad input --------------------------------------------------------------------------------------------------------


def test_bad_regions_are_refused_with_a_sentence():
    field = cross(60)
    nowhere = voxel_region("corner", field, (0, 0, 0))
    for regions, words in (
        ([], "there are no regions"),
        ([ball("far", (900, 0, 0))], "holds no center of a voxel"),
        ([nowhere], "'corner' has no fixels"),
        (Atlas(labels=np.zeros((3, 3, 3), int), affine=np.eye(4)), "has no labels"),
        (
            Atlas(labels=np.ones((3, 3, 3), int), affine=np.eye(4) * [[9], [9], [9], [1]] + 800 * np.eye(4, k=3)),
            "no label",
        ),
    ):
        with pytest.raises(InvalidInput, match=words):
            flow(field, regions, device="cpu")
    with pytest.raises(InvalidInput, match="empty"):
        Region(name="none", voxels=np.zeros(field.shape, bool), affine=field.affine)
    bare = FixelField(
        counts=np.zeros((4, 4, 4), np.uint8), directions=np.zeros((0, 3), np.float32),
        amplitudes=np.zeros(0, np.float32), affine=np.eye(4),
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="no fixels at all"):
        flow(bare, [ball("a", (1, 1, 1), 3)], device="cpu")


def test_what_to_know_of_regions_is_noted():
    field = cross(60)
    one, beside = voxel_region("one", field, (2, 16, 4)), voxel_region("beside", field, (3, 16, 4))
    found = flow(field, [one, beside, ball("east", (26, 0, 0), 8.0), ball("within", (26, 0, 0), 5.0)], device="cpu")
    touching, thin = found.notes
    assert touching.startswith("one and beside, east and within overlap or touch")
    assert thin.startswith("one, beside are thinner than a step of 4 voxels")
    labels = np.zeros(field.shape, int)
    labels[one.voxels], labels[0, 0, 0] = 1, 2
    atlas = flow(field, Atlas(labels=labels, affine=field.affine), device="cpu")
    assert atlas.notes[0].startswith("2 of the atlas has no fixels")
    assert atlas.matrix()[0, 1] == 0


def test_peaks_in_wrong_axes_end_at_once_and_it_is_said():
    """Directions that are not in world axes lead out of their bundles."""
    field = straight(0.0)
    turned = dataclasses.replace(field, directions=field.directions[:, [1, 0, 2]], cache=type(field.cache)())
    found = flow(turned, [ball("west", (-40, 0, 0)), ball("east", (30, 0, 0))], device="cpu")
    assert found.matrix("one_way")[0, 1] == 0
    assert found.endings(1)["at the edge of the fixels"] > 0.99


# -- the phantom of six bundles ---------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("b", "snr"), [(2500.0, 25.0), (1000.0, 12.0)])
def test_true_pairs_of_the_crossing_phantom_are_ranked_above_false_ones(b, snr, shared_data):
    folder = shared_data.parent / "cases" / "numbers"
    pytest.importorskip("dipy")
    sys.path.insert(0, str(folder))
    import crossing_phantom

    sample = crossing_phantom.make(b=b, snr=snr, seed=1)
    mask = sum(sample["frac"].values()) > 0.05
    scan = diffusion.DiffusionScan(
        data=sample["data"], bvals=sample["bvals"], directions=sample["dirs"], affine=sample["affine"]
    )
    fods = diffusion.deconvolve(scan, diffusion.estimate_response(scan, mask, device="cpu"), mask, device="cpu")
    found = flow(fods, Atlas(labels=crossing_phantom.labels(sample), affine=scan.affine), device="cpu")
    one, other = np.triu_indices(12, 1)
    true = (one % 2 == 0) & (other == one + 1)
    for of, least in (("overlap", 0.4), ("arrivals", 0.1)):
        score = found.matrix(of)[one, other]
        assert (score[true][:, None] > score[~true]).mean() >= 0.997
        assert score[true].min() > least
    ranks = found.ranks()[one[true], other[true]]
    assert np.median(ranks) == 1
    for n, curve in enumerate(sample["curves"].values()):
        ends = (Atlas(labels=crossing_phantom.labels(sample), affine=scan.affine).region(2 * n + m) for m in (1, 2))
        line = routes(fods, *ends, device="cpu").tractogram[0]
        assert KDTree(curve).query(line)[0].mean() <= 0.65


def test_a_sphere_holds_the_voxels_that_are_looked_up_everywhere():
    from napari_gpubio.diffusion.regions import voxels_on
    from napari_gpubio.fibers.flow.regions import _in_sphere

    field = flipped(cross(60), (0, 2))
    for center, radius in (((3.0, -5.0, 2.0), 7.3), ((-33.0, 33.0, 0.0), 4.0), ((90.0, 0.0, 0.0), 4.0)):
        sphere = ball("one", center, radius)
        np.testing.assert_array_equal(
            _in_sphere(field, sphere), np.flatnonzero(voxels_on(sphere, field.shape, field.affine))
        )
