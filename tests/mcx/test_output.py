"""What is written at the end of a run of an MCX file: numbers, units and names as MCX has them."""

import dataclasses
import json

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.run import simulate
from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.mcx.io.jdata import decode_array
from napari_gpubio.mcx.io.output import write_mcx_output
from tests.light.shell import mcx
from tests.mcx.samples import written


def root(**session):
    return {
        "Session": {"ID": "slab", "Photons": 3000, "RNGSeed": 4, **session},
        "Forward": {"T0": 0, "T1": 2e-9, "Dt": 0.5e-9},
        "Domain": {
            "OriginType": 1, "LengthUnit": 2, "Dim": [10, 11, 6],
            "Media": [[0, 0, 1, 1], [0.02, 1, 0.5, 1.4], [0.1, 2, 0.8, 1.4]],
        },
        "Shapes": [{"Grid": {"Tag": 1, "Size": [10, 11, 6]}}, {"ZLayers": [[4, 6, 2]]}],
        "Optode": {
            "Source": {"Type": "pencil", "Pos": [5, 5.5, 0], "Dir": [0, 0, 1]},
            "Detector": [{"Pos": [8, 5.5, 0], "R": 2}],
        },
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulated(path, **session):
    case = read_mcx(written(path, root(**session)))
    return case, simulate(case.domain, case.source, case.settings, detectors=case.detectors, device="cpu")


def loaded(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("letter", "unit"), [("x", "1/(mm2 s)"), ("Flux", "1/mm2"), ("energy", "part")])
def test_numbers_have_the_unit_of_the_output_type(folder, letter, unit):
    case, result = simulated(folder, OutputType=letter)
    path, _ = write_mcx_output(folder, case, result)
    assert path == folder / "slab.jnii"
    header, data = loaded(path)["NIFTIHeader"], decode_array(loaded(path)["NIFTIData"], "data")
    assert data.shape == (10, 11, 6, 4)
    assert data.dtype == np.float32
    assert unit in header["Description"]
    assert header["VoxelSize"] == pytest.approx([2, 2, 2, 0.5e-9])
    # Whatever the unit, it leads back to the part of the light that is absorbed.
    mua = np.choose(result.domain.labels, [0, 0.02, 0.1])[..., None]
    to_absorbed = {"x": mua * 8 * 0.5e-9, "F": mua * 8, "e": 1}[letter[0]]
    assert (data * to_absorbed).sum() == pytest.approx(result.energy.absorbed.value, rel=1e-5)


def test_numbers_are_of_the_light_that_entered(folder):
    """MCX leaves out what is reflected where light enters, and what misses the tissue."""
    wide = root(DoMismatch=1, DoSpecular=1, OutputType="e")
    wide["Optode"]["Source"] = {"Type": "disk", "Pos": [0, 5.5, -1], "Dir": [0, 0, 1], "Param1": [3, 0, 0, 0]}
    case = read_mcx(written(folder, wide))
    result = simulate(case.domain, case.source, case.settings, detectors=case.detectors, device="cpu")
    path, _ = write_mcx_output(folder, case, result)
    total = decode_array(loaded(path)["NIFTIData"], "data").sum(dtype=np.float64)
    assert result.energy.entered < 0.6
    assert total == pytest.approx(result.energy.absorbed.value / result.energy.entered, rel=1e-5)


def test_detected_photons_are_counted_in_voxels_and_from_one(folder):
    case, result = simulated(folder)
    _, path = write_mcx_output(folder, case, result)
    assert path == folder / "slab_detp.jdat"
    found = loaded(path)["MCXData"]
    info, lists = found["Info"], {name: decode_array(node, name) for name, node in found["PhotonData"].items()}
    assert info["TotalPhoton"] == 3000
    assert info["DetectedPhoton"] == len(lists["detid"]) == len(result.detected) > 20
    assert set(lists["detid"][:, 0]) == {1}
    np.testing.assert_allclose(lists["ppath"] * 2, result.detected.path_mm, rtol=1e-6)
    np.testing.assert_allclose(lists["p"] * 2, result.detected.position_mm, atol=1e-5)
    assert np.linalg.norm(lists["p"] - [8, 5.5, 0], axis=1).max() <= 2 + 1e-5
    np.testing.assert_allclose(np.linalg.norm(lists["v"], axis=1), 1, atol=1e-5)
    # w0 is the weight at launch: no roulette was played here, and no light lost where it entered
    np.testing.assert_allclose(lists["w0"], 1.0, rtol=1e-4)
    weight = lists["w0"][:, 0] * np.exp(-result.detected.path_mm @ np.array([m["mua"] for m in info["Media"][1:]]))
    np.testing.assert_allclose(weight, result.detected.weight, rtol=1e-5)


def test_the_list_has_the_shapes_of_mcx(folder):
    """A column for each row of Media but the first, also of media that no voxel has; numbers are those of the file."""
    content = root()
    content["Domain"]["Media"].insert(2, [0.5, 1, 0, 1.4])
    content["Shapes"][1]["ZLayers"][0][2] = 3
    content["Optode"]["Detector"] = [
        {"Pos": [1, 1, 0], "R": 1},
        {"Pos": [2, 2, 0], "R": -1},
        {"Pos": [8, 5.5, 0], "R": 2},
    ]
    case = read_mcx(written(folder, content))
    result = simulate(case.domain, case.source, case.settings, detectors=case.detectors, device="cpu")
    _, path = write_mcx_output(folder, case, result)
    found = loaded(path)["MCXData"]
    lists = {name: decode_array(node, name) for name, node in found["PhotonData"].items()}
    count = len(result.detected)
    assert {name: rows.shape for name, rows in lists.items()} == {
        "detid": (count, 1), "ppath": (count, 3), "p": (count, 3), "v": (count, 3), "w0": (count, 1),
    }  # fmt: skip
    assert [row["mua"] for row in found["Info"]["Media"]] == [0, 0.02, 0.5, 0.1]
    assert found["Info"]["MediaNum"] == 3
    assert not lists["ppath"][:, 1].any()
    np.testing.assert_allclose(lists["ppath"][:, ::2] * 2, result.detected.path_mm, rtol=1e-6)
    assert set(lists["detid"][:, 0]) <= {1, 3}
    assert 3 in lists["detid"]


def test_absorption_voxel_by_voxel_leaves_no_paths(folder):
    case, _ = simulated(folder)
    given = dataclasses.replace(case.domain, mua_per_mm=np.full(case.domain.shape, 0.01))
    result = simulate(given, case.source, case.settings, detectors=case.detectors, device="cpu")
    _, path = write_mcx_output(folder, case, result)
    assert set(loaded(path)["MCXData"]["PhotonData"]) == {"detid", "p", "v"}


def test_whole_faces_have_the_number_of_mcx(folder):
    """Faces -1, all alike, and round detectors from 1, wherever they stand in our list."""
    case, result = simulated(folder, BCFlags="______100001")
    assert [getattr(d, "face", "round") for d in result.detectors] == ["-i", "+k", "round"]
    _, path = write_mcx_output(folder, case, result)
    found = decode_array(loaded(path)["MCXData"]["PhotonData"]["detid"], "detid")[:, 0]
    assert set(found) == {-1, 1}
    np.testing.assert_array_equal(found == 1, result.detected.detector == 2)


@pytest.mark.parametrize(("session", "names"), [
    ({"DoSaveVolume": 0}, ["slab_detp.jdat"]), ({"DoPartialPath": False}, ["slab.jnii"]),
    ({"DoSaveVolume": False, "DoPartialPath": 0}, []),
])  # fmt: skip
def test_only_what_the_file_wants_is_written(folder, session, names):
    case, result = simulated(folder, **session)
    assert [path.name for path in write_mcx_output(folder, case, result)] == names


@pytest.mark.parametrize("form", ["jnii", "nii", "mc2"])
def test_the_shell_runs_a_file_as_it_is(folder, capsys, form):
    case, result = simulated(folder, OutputFormat=form)
    file = next(folder.glob("*.json"))
    assert mcx(str(file), "--device", "cpu") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "out"
    if form == "nii":
        data = np.asarray(nib.load(folder / "out" / "slab.nii").dataobj)
    elif form == "mc2":
        data = np.fromfile(folder / "out" / "slab.mc2", "<f4").reshape(result.gates.shape, order="F")
    else:
        data = decode_array(loaded(folder / "out" / "slab.jnii")["NIFTIData"], "data")
    np.testing.assert_array_equal(data, result.fluence_rate)
    assert case.name == "slab"


@pytest.mark.parametrize(
    ("session", "arguments", "named"),
    [
        ({"OutputType": "M"}, (), r"Session\.OutputType is 'm', which is not made here"),
        ({"OutputType": "rf"}, (), r"Session\.OutputType is 'r'; give a modulation frequency"),
        ({"OutputFormat": "tx3"}, (), r"Session\.OutputFormat is 'tx3', which is not written here"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_run(folder, session, arguments, named):
    written(folder, root(**session))
    with pytest.raises(InvalidInput, match=named):
        mcx(str(next(folder.glob("*.json"))), "--device", "cpu", *arguments)
    assert not list(folder.glob("out"))


def test_an_id_leads_to_no_other_folder(folder):
    case, result = simulated(folder, ID="../../elsewhere")
    assert write_mcx_output(folder, case, result)[0] == folder / "elsewhere.jnii"


# -- what takes photons that are traced again -------------------------------------------------------------------------


def replayed_run(folder, *, detectors=1, **session):
    """Run a file from the shell; returns the volume, the case, and what the API gives for the same."""
    content = root(**session)
    content["Optode"]["Source"]["Frequency"] = 2e8
    content["Optode"]["Detector"] += [{"Pos": [2, 5.5, 0], "R": 1.5}] * (detectors - 1)
    file = written(folder, content)
    assert mcx(str(file), "--device", "cpu") == 0
    case = read_mcx(file)
    result = simulate(case.domain, case.source, case.settings, detectors=case.detectors, device="cpu")
    return decode_array(loaded(folder / "out" / "slab.jnii")["NIFTIData"], "data"), case, result


@pytest.mark.parametrize("detectors", [1, 2])
def test_paths_of_the_detected_light_are_those_of_the_list(folder, detectors):
    """J of MCX is a path in mm per detected weight: all of it together is the mean path."""
    volume, _, result = replayed_run(folder, detectors=detectors, OutputType="jacobian", Photons=6000)
    found = result.detected
    assert volume.shape == (10, 11, 6, 4)
    weight = found.weight.astype(float)
    assert volume.sum(dtype=float) == pytest.approx(weight @ found.path_mm.sum(axis=1) / weight.sum(), rel=1e-5)
    early = found.time_ns < 0.5
    gate = weight[early] @ found.path_mm[early].sum(axis=1) / weight.sum()
    assert volume[..., 0].sum(dtype=float) == pytest.approx(gate, rel=1e-5)
    assert (volume >= 0).all()


def test_scattering_of_the_detected_light_is_counted(folder):
    """P of MCX: events per detected weight, times the voxel's edge of 2 mm."""
    volume, _, result = replayed_run(folder, OutputType="P", Photons=6000)
    found = result.detected
    weight = found.weight.astype(float)
    assert volume.sum(dtype=float) == pytest.approx(2.0 * (weight @ found.scatterings) / weight.sum(), rel=1e-4)


def test_amplitude_and_phase_lag_of_all_detected_light(folder):
    volume, case, result = replayed_run(folder, detectors=2, OutputType="rf", Photons=6000)
    assert case.frequency_mhz == pytest.approx(200.0)
    found = result.detected
    signal = found.weight * np.exp(-2e-3j * np.pi * 200.0 * found.time_ns)
    expected = -(signal @ found.path_mm.sum(axis=1)) / signal.sum()
    assert volume.shape == (10, 11, 6, 2)
    assert loaded(folder / "out" / "slab.jnii")["NIFTIHeader"]["VoxelSize"] == [2, 2, 2, 1]  # the last axis is not time
    sums = volume.sum(axis=(0, 1, 2), dtype=float)
    assert sums == pytest.approx([expected.real, -expected.imag], rel=1e-4)
    assert sums[1] < 0  # what absorbs takes late light away


def test_replay_needs_detectors(folder):
    content = root(OutputType="J")
    content["Optode"]["Detector"] = []
    with pytest.raises(InvalidInput, match="there are no detectors"):
        mcx(str(written(folder, content)), "--device", "cpu")


def test_trajectories_are_written_where_they_are_wanted(folder):
    file = written(folder, root(DebugFlag="M", Photons=50))
    assert mcx(str(file), "--device", "cpu") == 0
    ways = loaded(folder / "out" / "slab_traj.jdat")["MCXData"]["Trajectory"]
    photons, places, weights = (decode_array(ways[name], name) for name in ("photonid", "p", "w0"))
    assert len(photons) == len(places) == len(weights)
    assert photons.dtype == np.uint32
    assert set(photons) == set(range(50))
    first = np.flatnonzero(np.diff(photons, prepend=-1.0))
    np.testing.assert_allclose(places[first], np.tile([5, 5.5, 0], (50, 1)), atol=2e-3)  # voxels, from the corner
    assert (weights > 0).all()
    assert (weights <= 1).all()


def test_photons_of_separate_sources_are_not_replayed(folder):
    content = root(OutputType="J")
    content["Optode"]["Source"] |= {"SrcID": -1}
    one = content["Optode"]["Source"]
    content["Optode"]["Source"] = [one, one | {"Pos": [4, 5.5, 0]}]
    with pytest.raises(InvalidInput, match="not those of separate sources"):
        mcx(str(written(folder, content)), "--device", "cpu", "--source-number", "-1")
