"""MCX's conventions turned into ours and back: origin, unit, faces, gates; what is refused."""

import json

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.mcx.io.jdata import encode_array
from napari_gpubio.mcx.napari_io import get_reader
from tests.mcx.samples import GRAY, OUTSIDE, case, without, written


@pytest.mark.parametrize(("origin", "shift"), [({"OriginType": 0}, 1.0), ({}, 1.0), ({"OriginType": True}, 0.0)])
def test_positions_count_from_one_by_default(read, origin, shift):
    root = without(case(), "Domain", "OriginType")
    root["Domain"] |= origin | {"LengthUnit": 0.5}
    found = read(root)
    np.testing.assert_allclose(found.source.position_mm, (np.array([29, 29, 0]) - shift) / 2)
    np.testing.assert_allclose(found.detectors[0].position_mm, (np.array([29, 19, 0]) - shift) / 2)
    assert found.detectors[0].radius_mm == 0.5
    grid = found.domain.world_to_grid(found.source.position_mm)
    np.testing.assert_allclose(grid, (np.array([29, 29, 0]) - shift) / 2, atol=1e-12)


def test_unit_scales_lengths_but_not_coefficients(read):
    found = read(case(Domain={"LengthUnit": 0.1}))
    np.testing.assert_allclose(found.domain.voxel_sizes_mm, 0.1)
    assert (found.domain.medium(1).mua_per_mm, found.domain.medium(1).mus_per_mm) == (0.005, 1.0)
    np.testing.assert_allclose(read(case(Domain={"Step": [0.1, 0.1, 0.1]})).domain.voxel_sizes_mm, 0.1)


def test_keys_of_any_case_and_at_the_root(read):
    root = case()
    root["DOMAIN"] = root.pop("Domain")
    root["DOMAIN"]["dim"] = root["DOMAIN"].pop("Dim")
    del root["Session"]["Photons"]
    root["session.photons"] = 5
    assert read(root).settings.photons == 5


def test_texts_may_have_line_breaks(tmp_path):
    text = json.dumps(case(Help="one\ttwo\nthree")).replace("\\n", "\n").replace("\\t", "\t")
    assert "\n" in text
    assert read_mcx(written(tmp_path, "\ufeff" + text)).name == "cube60"


@pytest.mark.parametrize(
    ("letters", "faces"),
    [
        ("", ("default",) * 6),
        ("aarraa", ("escape", "fresnel", "escape", "escape", "fresnel", "escape")),
        ("CCmCC_", ("cyclic", "cyclic", "cyclic", "cyclic", "mirror", "default")),
        ("r", ("fresnel", *("default",) * 5)),
    ],
)
def test_faces(read, letters, faces):
    """MCX: -x, -y, -z, +x, +y, +z. Here: -i, +i, -j, +j, -k, +k."""
    assert read(case(Session={"BCFlags": letters})).settings.faces == faces


@pytest.mark.parametrize(
    ("forward", "gates", "words"),
    [
        ({"T0": 0, "T1": 5e-9, "Dt": 1e-9}, (0, 1, 2, 3, 4, 5), None),
        ({"T0": 1e-9, "T1": 2e-9, "Dt": 0.25e-9}, (1, 1.25, 1.5, 1.75, 2), None),
        ({"T0": 0, "T1": 5e-9, "Dt": 2e-9}, (0, 2, 4, 6), "end at 6 ns"),  # 2.5 + 0.5 rounds down to 3 gates
        ({"T0": 0, "T1": 4.8e-9, "Dt": 2e-9}, (0, 2, 4), "end at 4 ns"),
        ({"T0": 0, "T1": 1e-9, "Dt": 5e-9}, (0, 1), "one time gate"),
        ({"T1": 3e-9}, (0, 3), None),
    ],
)
def test_time_gates(read, forward, gates, words):
    root = case()
    root["Forward"] = forward
    found = read(root)
    assert found.settings.time_gates_ns == pytest.approx(gates, rel=1e-12)
    assert words is None or any(words in note for note in found.notes)


def test_settings(read):
    session = {
        "Photons": 3e7, "RNGSeed": 17, "DoMismatch": 1, "DoSpecular": 1, "DoSaveRef": True, "MinEnergy": 0.01,
        "MaxDetPhoton": 500,
    }  # fmt: skip
    assert read(case(Session=session)).settings == LightSettings(
        photons=30_000_000, seed=17, refraction=True, specular=True, exit_map=True, roulette_threshold=0.01,
        max_detected=500, time_gates_ns=(0.0, 5.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("session", "words"),
    [
        ({"DoMismatch": 1}, "without specular loss"),
        ({"RNGSeed": -1}, "seed from the clock"),
        ({"OutputType": "M"}, "OutputType 'm' is not made"),
        ({"OutputType": "J"}, "those detected are replayed"),
        ({"DoNormalize": 0}, "per photon that enters the tissue"),
        ({"DoDCS": True}, "momentum transfer"),
        ({"DebugFlag": "MP"}, "DebugFlag M: the trajectories of"),
        ({"DebugFlag": "T"}, "no volume and no list"),
        ({"SaveDataMask": "DSP"}, "SaveDataMask: it is not used"),
        ({"DoSaveRef": 1}, "run.npz only"),
        ({"ReplayDet": 2}, "Not used here: Session.ReplayDet"),
        ({"RootPath": "out"}, "Not used here: Session.RootPath"),
    ],
)
def test_what_is_left_out_is_noted(read, session, words):
    assert read(case()).notes == ()
    assert any(words in note for note in read(case(Session=session)).notes)


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ({}, "Optode.Source is missing"),
        ({"Shapes": [{"Grid": {"Size": [1, 1, 1]}}], "Help": {}}, "the volume of an input file.*open that one"),
        (without(case(), "Optode"), "Optode.Source is missing"),
        (without(case(), "Optode", "Source", "Pos"), "Optode.Source.Pos is missing"),
        (without(case(), "Optode", "Source", "Dir"), "Optode.Source.Dir is missing"),
        (without(case(), "Forward"), "Forward.T1 is missing"),
        (without(case(), "Domain", "Media"), "Domain.Media is absent"),
        (without(case(), "Shapes"), "Shapes is absent"),
        (case(Shapes={"Grid": {"Size": [1, 1, 1]}}), "Shapes is .*give a list"),
        (case(Domain={"VolumeFile": "a.bin"}), "both Domain.VolumeFile and Shapes"),
        (case(Domain=[1, 2]), "Domain is .*an object"),
        (case(Domain={"Media": [OUTSIDE]}), "give a list: the outside, then"),
        (case(Domain={"Media": [OUTSIDE, [0.1, 1, 0.9]]}), r"Domain.Media\[1\] is .* list of 4 numbers"),
        (case(Domain={"Media": [OUTSIDE, [0.1, 1, 0.9, 1.3, 5]]}), "list of 4 numbers"),
        (case(Domain={"Media": [OUTSIDE, {"mua": 0.1, "mus": 1, "g": 0.9}]}), r"Domain.Media\[1\].n is missing"),
        (case(Domain={"Media": [OUTSIDE, "tissue"]}), "give mua, mus, g and n"),
        (case(Domain={"Media": [OUTSIDE, GRAY | {"mua": -0.1}]}), "label 1: mua_per_mm is -0.1"),
        (case(Domain={"Media": [OUTSIDE, GRAY | {"g": 1.2}]}), "label 1: g is 1.2"),
        (case(Domain={"Media": [OUTSIDE, GRAY | {"n": "glass"}]}), "n is 'glass'; give a number"),
        (case(Domain={"Media": [OUTSIDE | {"n": 0}, GRAY]}), "index outside is 0"),
        (case(Shapes=[{"Grid": {"Tag": 3, "Size": [2, 2, 2]}}]), "no optical properties for label 3"),
        (case(Shapes=[{"Grid": {"Tag": 0, "Size": [2, 2, 2]}}]), "every voxel is 0"),
        (case(Domain={"LengthUnit": 0}), "LengthUnit is 0"),
        (case(Domain={"Step": [1, 1, 2]}), "cubic voxels only"),
        (case(Domain={"InverseCDF": [0.1, 0.5, 0.4]}), r"InverseCDF\[2\] is 0.4; .* the one before is 0.5"),
        (case(Domain={"InverseCDF": [-1.5]}), r"InverseCDF\[0\] is -1.5"),
        (case(Domain={"InverseCDF": [0.5, 1.5]}), r"InverseCDF\[1\] is 1.5"),
        (case(Domain={"InverseCDF": "isotropic"}), "InverseCDF is 'isotropic'; give a list"),
        (case(Domain={"MieScatter": [{}]}), "polarized light.*give mua, mus, g and n"),
        (case(Domain={"VoxelSize": {"Dx": [1]}}), "equal voxels"),
        (case(Domain={"Dim": [10**6, 10**6, 10**6]}, Shapes=[]), "between 1 and 32767"),
        (case(Domain={"Dim": [30000, 30000, 30000]}, Shapes=[]), "MB of memory"),
        (case(Domain={"Dim": [60, 60]}), "list of 3 numbers"),
        (case(Domain={"MediaFormat": "mua_float"}, Shapes=encode_array(np.zeros((4, 5, 6), np.uint8))), "needs float"),
        (case(Shapes=encode_array(np.ones((4, 5, 6), np.float32))), "give integers"),
        (case(Session={"Photons": 0}), "photons is 0"),
        (case(Session={"Photons": "many"}), "Session.Photons is 'many'; give a number"),
        (case(Session={"Photons": 10**400}), "give a number"),
        (case(Session={"RNGSeed": "base.mch"}), "'base.mch', a replay of photons from seeds of another program"),
        (case(Optode={"Source": {"Pos": [29, 29, 0], "Dir": [0, 0, 1], "Frequency": -1e8}}), "Frequency is -1e"),
        (case(Session={"BCFlags": "xyz"}), "BCFlags is 'xyz'"),
        (case(Session={"BCFlags": "c_____"}), "only one face of axis i is cyclic"),
        (case(Session={"DoMismatch": "yes"}), "give a number"),
        (case(Forward={"T1": -1}), "times must begin at 0"),
        (case(Forward={"Dt": 0}), "width greater than 0"),
        (case(Forward={"Dt": 1e-18}), "time gates"),
        (case(Optode={"Detector": 5}), "Optode.Detector is"),
        (case(Optode={"Detector": [{"Pos": [1, 2], "R": 1}]}), "list of 3 numbers"),
    ],
)  # fmt: skip
def test_wrong_files(read, root, words):
    with pytest.raises(InvalidInput, match=words) as refused:
        read(root)
    assert str(refused.value).startswith("case.json: ")


def test_detectors_without_a_radius_above_0_are_left_out(read):
    rows = [{"Pos": [1, 2, 3], "R": -1}, {"Pos": [1, 2, 3]}, {"Pos": [1, 2, 3], "R": 2}, {"Pos": [1, 2, 3], "R": 0}]
    found = read(case(Optode={"Detector": rows}))
    assert [d.radius_mm for d in found.detectors] == [2]
    assert any("3 of 4 detectors have no radius above 0" in note for note in found.notes)
    assert found.detector_numbers == (3,)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (json.dumps(case()).encode()[:-40], "is not valid JSON .*cut off"),
        (b"{U\x04MeshU\x01\x90", "not text.*BJData"),
        (b"\x00\x01\x02", "not text"),
        (b"[1, 2]", "an object"),
        (b"1e6 # photons\n29 29 1\n", "is not valid JSON"),
        (b"{" + b'"a":[' * 100_000, "is not valid JSON"),
        (b'{"Domain": ' + b"9" * 5000 + b"}", "Domain is inf; an object"),
        (b"", "empty"),
    ],
)
def test_files_that_are_no_json(tmp_path, data, words):
    (tmp_path / "case.json").write_bytes(data)
    with pytest.raises(InvalidInput, match=words):
        read_mcx(tmp_path / "case.json")


@pytest.mark.parametrize("name", ["case.json", "case.inp"])
def test_a_file_that_may_not_be_read(tmp_path, monkeypatch, name):
    """It is refused by name, and napari is told that it is none of ours."""

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    path = written(tmp_path, case(), name)
    for method in ("open", "read_bytes", "read_text"):
        monkeypatch.setattr(type(path), method, refuse)
    with pytest.raises(InvalidInput, match=f"^{name} cannot be read"):
        read_mcx(path)
    assert get_reader(str(path)) is None


@pytest.mark.parametrize("flag", ["T", 8, "MT"])
def test_nothing_but_trajectories(read, flag):
    found = read(case(Session={"DebugFlag": flag}))
    assert (found.trajectories, found.saves_volume, found.saves_photons) == (True, False, False)


@pytest.mark.parametrize(("output", "is_noted"), [("x", True), ("R", False)])
def test_a_frequency_is_noted_where_it_is_not_used(read, output, is_noted):
    source = {"Pos": [29, 29, 0], "Dir": [0, 0, 1], "Frequency": 1e8}
    notes = read(case(Session={"OutputType": output}, Optode={"Source": source})).notes
    assert any("Frequency is not used" in note for note in notes) == is_noted


@pytest.mark.parametrize(("flag", "wanted"), [("MP", True), ("P", False), (2, True), (6, True), (4, False), (0, False)])
def test_a_debug_flag_is_letters_or_bits(read, flag, wanted):
    assert read(case(Session={"DebugFlag": flag})).trajectories == wanted
