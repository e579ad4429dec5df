"""How sure the flow is: repeats of the bootstrap, what they depend on, intervals of numbers and ranks, files."""

import csv
import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.fods.response import write_response
from napari_gpubio.diffusion.io.gradients import write_fsl_gradients
from napari_gpubio.fibers.flow import FlowMatrices, FlowRepeats, flow, flow_repeats, flow_repeats_steps
from tests.described import check_described
from tests.fibers.flow.flow_samples import ball, ends_of_cross, noisy_cross
from tests.runs import finished
from tests.shell import run_verb

AWAY, REPEATS = 18.0, 8
ENDS = ends_of_cross(90, AWAY)
MIDDLE = ball("middle", (0, 0, 0), 7.0)


@pytest.fixture(scope="module")
def crossing():
    """A scan with noise of two bundles that cross, with the response of one, and its FODs."""
    return noisy_cross()


@pytest.fixture(scope="module")
def sure(crossing):
    scan, _, fods = crossing
    return flow_repeats(scan, fods, ENDS, repeats=REPEATS, random_seed=3, device="cpu")


def test_intervals_hold_the_fit_and_ranks_are_sure_where_the_truth_is(crossing, sure):
    assert sure.complete
    assert sure.repeats == REPEATS
    np.testing.assert_array_equal(sure.fit.overlaps, flow(crossing[2], ENDS, device="cpu").overlaps)
    for label, partner in ((1, "east"), (2, "west"), (3, "north"), (4, "south")):
        best, *others = sure.ranked(label, first=1)
        assert (best.name, best.rank, best.rank_low, best.rank_high, best.among_first) == (partner, 1, 1, 1, 1.0)
        assert all(one.among_first == 0.0 and one.rank_low > 1 and one.high < best.low for one in others)
        assert all(one.low <= one.value <= one.high for one in (best, *others))
    (low, high), (lowest, highest) = (sure.interval("arrivals", level) for level in (0.5, 0.95))
    assert lowest[0, 1] < low[0, 1] < high[0, 1] < highest[0, 1]
    assert (sure.among_first(3)[0] == [0, 1, 1, 1]).all()
    assert sure.mean()[0, 1] == pytest.approx(sure.matrices()[:, 0, 1].mean())
    for words in ("targets of one source", "touch", "rim of the regions", "45 directions"):
        assert any(words in note for note in sure.notes)


def test_a_repeat_depends_on_the_seed_and_its_number_alone(crossing, sure):
    scan, _, fods = crossing
    stop = threading.Event()
    steps = flow_repeats_steps(scan, fods, ENDS, repeats=500, random_seed=3, device="cpu", stop=stop)
    for step in steps:
        if step.message == "bootstrap" and step.done == 2:
            assert step.preview.repeats == 2
            stop.set()
            break
    _, found = finished(steps)
    assert not found.complete
    assert 2 <= found.repeats < 8
    np.testing.assert_array_equal(found.overlaps, sure.overlaps[: found.repeats])
    other = flow_repeats(scan, fods, ENDS, repeats=1, random_seed=4, device="cpu")
    assert (other.overlaps != sure.overlaps[0]).any()


def test_repeats_obey_walls_and_those_without_a_region_are_left_out(crossing, monkeypatch):
    scan, _, fods = crossing
    found = flow_repeats(scan, fods, ENDS, repeats=2, exclude=[MIDDLE], device="cpu")
    assert found.matrices("one_way").max() == 0.0
    assert found.parameters["exclude"] == ["middle"]
    from napari_gpubio.fibers.flow import repeats

    numbers, once = iter(range(9)), repeats.flow

    def sometimes(*given, **how):
        if next(numbers) == 1:
            raise InvalidInput("the region 'east' has no fixels")
        return once(*given, **how)

    monkeypatch.setattr(repeats, "flow", sometimes)
    found = flow_repeats(scan, fods, ENDS, repeats=3, device="cpu")
    assert (found.repeats, found.complete) == (2, True)
    assert any("1 repeats, in which noise leaves a region without" in note for note in found.notes)


def test_repeats_are_written_and_read(sure, tmp_path):
    sure.save(tmp_path / "sure.npz")
    found = FlowRepeats.load(tmp_path / "sure.npz")
    assert found.ranked(1) == sure.ranked(1)
    assert (found.names, found.notes, found.parameters) == (sure.names, sure.notes, sure.parameters)
    sure.save_ranked(tmp_path / "ranks.csv", 1, "arrivals")
    with (tmp_path / "ranks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["name"] == "east"
    assert int(rows[0]["rank_low"]) == 1
    sure.fit.save(tmp_path / "flow.npz")
    with pytest.raises(InvalidInput, match=r"flow\.npz"):
        FlowRepeats.load(tmp_path / "flow.npz")
    dataclasses.replace(sure, arrived=sure.arrived[:, :2]).save(tmp_path / "bad.npz")
    with pytest.raises(InvalidInput, match="damaged"):
        FlowRepeats.load(tmp_path / "bad.npz")
    with pytest.raises(InvalidInput):
        FlowMatrices.load(tmp_path / "bad.npz")


def test_bad_input_is_refused(crossing):
    scan, _, fods = crossing
    with pytest.raises(InvalidInput, match="at least 1"):
        flow_repeats(scan, fods, ENDS, repeats=0, device="cpu")
    with pytest.raises(InvalidInput, match="do not tell with which response"):
        flow_repeats(scan, dataclasses.replace(fods, parameters={}), ENDS, device="cpu")


def test_the_verb_ranks_the_targets_of_a_source(crossing, tmp_path, capsys):
    scan, response, fods = crossing
    write_volume(tmp_path / "dwi.nii.gz", scan.data, scan.affine)
    write_fsl_gradients(tmp_path / "dwi.bval", tmp_path / "dwi.bvec", scan.bvals, scan.directions, scan.affine)
    write_response(tmp_path / "wm.txt", response)
    write_volume(tmp_path / "mask.nii.gz", fods.mask.astype(np.uint8), scan.affine)
    centers = np.stack(np.indices(scan.shape), -1) @ scan.affine[:3, :3].T + scan.affine[:3, 3]
    labels = np.zeros(scan.shape, np.int16)
    for label, region in enumerate(ENDS, 1):
        labels[region.contains(centers.reshape(-1, 3)).reshape(labels.shape)] = label
    write_volume(tmp_path / "atlas.nii.gz", labels, scan.affine)
    (tmp_path / "atlas.txt").write_text("1 west\n2 east\n3 south\n4 north\n", encoding="utf-8")
    words = "--response", tmp_path / "wm.txt", "--mask", tmp_path / "mask.nii.gz", "--atlas", tmp_path / "atlas.nii.gz"
    outs = "--out", tmp_path / "sure.npz", "--ranked-out", tmp_path / "ranks.csv"
    how = "--source", f"{tmp_path / 'atlas.nii.gz'}:west", "--repeats", 2, "--device", "cpu"
    assert run_verb("flow-bootstrap", tmp_path / "dwi.nii.gz", *words, *how, *outs) == 0
    assert "2 repeats of the residual bootstrap" in capsys.readouterr().out
    found = FlowRepeats.load(tmp_path / "sure.npz")
    assert found.names == ("east", "south", "north", "west")
    assert found.ranked(5)[0].name == "east"
    assert (tmp_path / "ranks.csv").read_text(encoding="utf-8").splitlines()[1].startswith("2,east,")


def test_they_show_themselves(sure):
    check_described(sure, "ranked", pictures=2)
    check_described(sure.fit, "overlap", "one_way", "ranked", pictures=4)
