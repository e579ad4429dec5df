"""Several sources and stacks of patterns of MCX files: read, written, and run by the shell verb."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.cli import main
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io import load_result
from napari_gpubio.light.run import simulate, simulate_each
from napari_gpubio.light.statistics import detected_sources
from napari_gpubio.mcx.io.cases import read_mcx, write_mcx
from napari_gpubio.mcx.io.jdata import decode_array, encode_array
from napari_gpubio.optics.sources import Cone, Pencil, Slit
from tests.mcx.samples import GRAY, OUTSIDE, case, with_source, written

THREE = {"Pos": [[29, 29, 0, 2], [9, 9, 0], [39, 19, 0, 0.5]], "Dir": [[0, 0, 1, 0], [0, 0.6, 0.8], [0, 0, 1]]}
SMALL = {
    "Session": {"ID": "small", "Photons": 900, "OutputType": "f"},
    "Domain": {"Dim": [8, 8, 6], "OriginType": 1, "LengthUnit": 0.5, "Media": [OUTSIDE, GRAY]},
    "Shapes": [{"Grid": {"Tag": 1, "Size": [8, 8, 6]}}],
}
STACK = np.arange(1.0, 13.0).reshape(2, 2, 3)  # patterns, rows, columns
ON_RECTANGLE = {"Type": "pattern", "Pos": [2, 2, -1], "Dir": [0, 0, 1], "Param1": [3, 0, 0, 3], "Param2": [0, 4, 0, 2]}


def small(source, detectors=()):
    return case(**SMALL, Optode={"Source": source, "Detector": list(detectors)})


def side_by_side(stack):
    """Numbers of a pixel for all patterns, one pixel after another."""
    return np.moveaxis(stack, 0, 2).ravel().tolist()


# -- reading ----------------------------------------------------------------------------------------------------------


def test_rows_are_sources(read):
    found = read(with_source(**THREE))
    assert [source.position_mm for source in found.source] == [(29, 29, 0), (9, 9, 0), (39, 19, 0)]
    assert [source.weight for source in found.source] == [2.0, 1.0, 0.5]
    assert found.source[1].direction == (0.0, 0.6, 0.8)
    assert not [note for note in found.notes if "weight" in note]
    assert not found.separately


def test_rows_of_parameters_and_one_row_for_all(read):
    fields = {"Type": "disk", "Pos": THREE["Pos"], "Dir": [[0, 0, 1]], "Param1": [[3, 0, 0, 0], [4, 1], [5]]}
    found = read(with_source(**fields)).source
    assert [(source.radius_mm, source.inner_radius_mm) for source in found] == [(3, 0), (4, 1), (5, 0)]


def test_a_list_of_objects(read):
    root = with_source()
    root["Optode"]["Source"] = [
        {"Pos": [29, 29, 0], "Dir": [0, 0, 1]},
        {"Type": "cone", "Pos": [9, 9, 0], "Dir": [0, 0, 1], "Param1": [0.5]},
    ]
    assert [source.kind for source in read(root).source] == ["pencil", "cone"]


@pytest.mark.parametrize(("number", "count", "separately"), [(0, 3, False), (-1, 3, True), (2, 1, False)])
def test_srcid(read, tmp_path, number, count, separately):
    found = read_mcx(written(tmp_path, with_source(**THREE)), number)
    assert (len(found.sources), found.separately) == (count, separately)
    assert (len(read(with_source(**THREE, SrcID=number)).sources)) == count
    if number == 2:
        assert found.source.position_mm == (9, 9, 0)


def test_launch_angles(read):
    """Over pi, at equal steps; only these where the fourth number of the direction is positive."""
    found = read(with_source(AngleInverseCDF=[0, 0.1, 0.5], Type="isotropic")).source
    assert (found.kind, found.launch_angles_deg, found.launch_angles_are_discrete) == ("pencil", (0, 18, 90), False)
    table = encode_array(np.array([0.25, 0.5], np.float32))
    found = read(with_source(AngleInverseCDF=table, Type="disk", Param1=[3], Dir=[0, 0, 1, 1])).source
    assert (found.kind, found.launch_angles_deg, found.launch_angles_are_discrete) == ("disk", (45, 90), True)


def test_light_enters_through_faces_of_voxels(read):
    roots = with_source(), with_source(AngleInverseCDF=[0, 0.1, 0.5]), with_source(**THREE)
    assert {source.entry for root in roots for source in read(root).sources} == {"faces"}


@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize("is_mirrored", [False, True])
def test_a_stack_of_patterns(read, is_array, is_mirrored):
    node = {"Nx": 3, "Ny": 2, "Data": side_by_side(STACK)}
    if is_array:
        node = encode_array(STACK.swapaxes(1, 2).astype(np.float32))
    found = read(small(ON_RECTANGLE | {"Pattern": node, "SrcNum": 2, "Dir": [0, 0, -1 if is_mirrored else 1]}))
    np.testing.assert_array_equal(found.patterns, STACK[:, ::-1] if is_mirrored else STACK)
    assert (found.source.kind, found.source.width_mm, found.source.height_mm) == ("planar", 1.5, 2.0)


PATTERNS = {"Pattern": {"Nx": 3, "Ny": 2, "Data": side_by_side(STACK)}, "SrcNum": 2}


def test_a_stack_is_launched_as_one_pattern_is(read, tmp_path):
    """To a focus, or into a table of angles, there and back; not isotropically; notes are those of a source."""
    for fields, name in (({"Dir": [0, 0, 1, 50]}, "focus_mm"), ({"AngleInverseCDF": [0, 0.1]}, "launch_angles_deg")):
        begun = read(small(ON_RECTANGLE | PATTERNS | fields))
        assert getattr(begun.source, name) == {"focus_mm": 25.0, "launch_angles_deg": (0.0, 18.0)}[name]
        path = tmp_path / "again.json"
        write_mcx(path, begun.domain, begun.source, begun.settings, patterns=begun.patterns)
        assert getattr(read_mcx(path).source, name) == pytest.approx(getattr(begun.source, name))
    with pytest.raises(InvalidInput, match="'pattern', launched isotropically"):
        read(small(ON_RECTANGLE | PATTERNS | {"Dir": [0, 0, 1, "_NaN_"]}))
    array = encode_array(STACK.swapaxes(1, 2).astype(np.float32))
    assert any("row-major" in note for note in read(small(ON_RECTANGLE | {"Pattern": array})).notes)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (THREE | {"Dir": [[0, 0, 1], [0, 0, 1]]}, "Dir has 2 rows, and other fields have 3"),
        ({"Dir": [[0, 0, 1], [0, 0, 1]]}, "a single Pos"),
        (THREE | {"Pos": [[1, 1, 0], [2, 2, 0, 0], [3, 3, 0]]}, "source 2 of 3: the source's weight is 0"),
        (THREE | {"Pos": [[1, 1, 0], [2, 2, 0], [3, 3]]}, "source 3 of 3.*3 to 4 numbers"),
        (THREE | {"Type": "pattern3d"}, "source 1 of 3.*pattern3d"),
        (THREE | {"SrcID": 4}, "is number 4, and the file has 3"),
        (ON_RECTANGLE | THREE | {"SrcNum": 2, "Pattern": {"Nx": 3, "Ny": 2, "Data": [1] * 12}}, "one or the other"),
        (ON_RECTANGLE | {"SrcNum": 2, "Pattern": {"Nx": 3, "Ny": 2, "Data": [1, 0] * 6}}, "pattern 2 of 2"),
        (ON_RECTANGLE | {"SrcNum": 2, "Pattern": {"Nx": 2, "Ny": 2, "Data": [1] * 8}}, "make them the same"),
        (ON_RECTANGLE | {"SrcNum": 2, "Pattern": encode_array(np.ones((2, 2, 2)))}, "make them the same"),
    ],
)
def test_sources_that_cannot_be_read(read, fields, words):
    with pytest.raises(InvalidInput, match=words):
        read(with_source(**fields))


def test_lists_that_are_none(read):
    root = with_source()
    for node in ([], [3], "pencil"):
        root["Optode"]["Source"] = node
        with pytest.raises(InvalidInput, match=r"Optode\.Source is"):
            read(root)


# -- writing ----------------------------------------------------------------------------------------------------------


def test_patterns_of_a_file(tmp_path):
    """Nx, Ny, Nz count patterns, columns and rows; the file has float32, those of a pixel side by side."""
    pattern = {"Nx": 2, "Ny": 3, "Nz": 2, "Data": "stack.bin"}
    np.array(side_by_side(STACK), "<f4").tofile(tmp_path / "stack.bin")
    path = tmp_path / "case.json"
    path.write_text(json.dumps(small({**ON_RECTANGLE, "SrcNum": 2, "Pattern": pattern})))
    np.testing.assert_array_equal(read_mcx(path).patterns, STACK)
    path.write_text(
        json.dumps(small({**ON_RECTANGLE, "SrcNum": 2, "Pattern": {"Nx": 3, "Ny": 2, "Data": "stack.bin"}}))
    )
    np.testing.assert_array_equal(read_mcx(path).patterns, STACK)  # sizes of one pattern, numbers of both
    path.write_text(json.dumps(small({**ON_RECTANGLE, "SrcNum": 2, "Pattern": pattern})))
    (tmp_path / "stack.bin").write_bytes(b"1234")
    with pytest.raises(InvalidInput, match=r"stack\.bin has 4 bytes, and the pattern has 12 numbers"):
        read_mcx(path)
    path.write_text(json.dumps(small({**ON_RECTANGLE, "Pattern": {**pattern, "Data": "../elsewhere.bin"}})))
    with pytest.raises(InvalidInput, match=r"Pattern\.Data is .*outside the folder"):
        read_mcx(path)


def test_sources_come_back(read, tmp_path):
    begun = read(with_source(**THREE, AngleInverseCDF=[0.1, 0.2]))
    write_mcx(tmp_path / "again.json", begun.domain, begun.source, begun.settings, begun.detectors)
    found = read_mcx(tmp_path / "again.json").source
    for one, other in zip(found, begun.source, strict=True):
        np.testing.assert_allclose(one.position_mm, other.position_mm)
        np.testing.assert_allclose(one.frame()[2], other.frame()[2])
        assert (one.weight, one.launch_angles_deg) == (other.weight, other.launch_angles_deg)


def test_patterns_come_back(read, tmp_path):
    begun = read(small(ON_RECTANGLE | {"Pattern": {"Nx": 3, "Ny": 2, "Data": side_by_side(STACK)}, "SrcNum": 2}))
    path = tmp_path / "again.json"
    write_mcx(path, begun.domain, begun.source, begun.settings, patterns=begun.patterns)
    np.testing.assert_array_equal(read_mcx(path).patterns, STACK)
    assert json.loads(path.read_text())["Optode"]["Source"]["SrcNum"] == 2


@pytest.mark.parametrize("first", [0, 1])
def test_slits_with_and_without_a_spread_come_back(read, tmp_path, first):
    """One has a field that the other lacks, in either order."""
    begun = read(with_source())
    slit = Slit(position_mm=(9, 9, 0), width_axis=(1, 0, 0), width_mm=4)
    pair = [slit, dataclasses.replace(slit, spread_across=0.1)][:: 1 if first == 0 else -1]
    write_mcx(tmp_path / "again.json", begun.domain, pair, begun.settings)
    assert [one.spread_across for one in read_mcx(tmp_path / "again.json").source] == [
        one.spread_across for one in pair
    ]


@pytest.mark.parametrize("other", [
    Cone(position_mm=(9, 9, 0)), Pencil(position_mm=(9, 9, 0), launch_angles_deg=(0, 9)),
])  # fmt: skip
def test_what_mcx_cannot_mix(read, tmp_path, other):
    begun = read(with_source())
    with pytest.raises(InvalidInput, match="sources 1 and 2 have different types"):
        write_mcx(tmp_path / "no.json", begun.domain, [begun.source, other], begun.settings)


# -- the shell --------------------------------------------------------------------------------------------------------


def run_in(folder: Path, monkeypatch, root, *options: str) -> dict:
    monkeypatch.chdir(folder)
    Path("case.json").write_text(json.dumps(root))
    assert main(["mcx", "case.json", "--device", "cpu", "--out", "out", *options]) == 0
    return json.loads(Path("out/small.jnii").read_text())


PAIR = {"Pos": [[4, 4, 0, 3], [2, 2, 0, 1]], "Dir": [[0, 0, 1], [0, 0, 1]]}
HIT = [{"Pos": [3, 3, 0], "R": 3}]


def test_all_sources_together(tmp_path, monkeypatch, read):
    volume = run_in(tmp_path, monkeypatch, small(PAIR, HIT))
    made = read(small(PAIR, HIT))
    expected = simulate(made.domain, made.source, made.settings, detectors=made.detectors, device="cpu")
    np.testing.assert_array_equal(decode_array(volume["NIFTIData"], ""), expected.gates)
    listed = json.loads(Path("out/small_detp.jdat").read_text())["MCXData"]["PhotonData"]
    numbers = decode_array(listed["detid"], "")[:, 0]
    np.testing.assert_array_equal(numbers >> 16, detected_sources(expected) + 1)
    assert set(numbers & 0xFFFF) == {1}
    np.testing.assert_array_equal(load_result("out/run.npz").gates, expected.gates)


def test_each_source_separately(tmp_path, monkeypatch, read, capsys):
    """Along a sixth axis, over the mean of the launched weights, as MCX divides."""
    volume = run_in(tmp_path, monkeypatch, small(PAIR, HIT), "--source-number", "-1")
    made = read(small(PAIR))
    halved = dataclasses.replace(made.settings, photons=450)
    alone = simulate_each(made.domain, made.source, halved, device="cpu")
    values = decode_array(volume["NIFTIData"], "")
    assert values.shape == (8, 8, 6, 1, 1, 2) == tuple(volume["NIFTIHeader"]["Dim"])
    for number, share in enumerate((1.5, 0.5)):
        np.testing.assert_allclose(values[..., 0, number], share * alone[number].gates, rtol=1e-6)
        np.testing.assert_array_equal(load_result(f"out/run_{number + 1}.npz").gates, alone[number].gates)
    assert "Source 2 of 2" in capsys.readouterr().out


def test_patterns_from_the_shell(tmp_path, monkeypatch):
    """Along a first axis; the list of photons, whose weights differ by pattern, is left out."""
    node = {"Nx": 3, "Ny": 2, "Data": side_by_side(STACK)}
    volume = run_in(tmp_path, monkeypatch, small(ON_RECTANGLE | {"Pattern": node, "SrcNum": 2}, HIT))
    values = decode_array(volume["NIFTIData"], "")
    assert values.shape == (2, 8, 8, 6, 1)
    assert not np.array_equal(values[0], values[1])
    assert not Path("out/small_detp.jdat").exists()


@pytest.mark.parametrize(("options", "words"), [
    (("--source-number", "3"), "is number 3, and the file has 2"), (("--source-number", "-2"), "source_number is -2"),
])  # fmt: skip
def test_a_source_that_is_none(tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    Path("case.json").write_text(json.dumps(small(PAIR)))
    assert main(["mcx", "case.json", "--out", "out", *options]) == 2
    assert words in capsys.readouterr().err


def test_nifti_holds_one_volume_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    root = small(PAIR)
    root["Session"]["OutputFormat"] = "nii"
    Path("case.json").write_text(json.dumps(root))
    assert main(["mcx", "case.json", "--source-number", "-1", "--out", "out"]) == 2
    assert "choose jnii" in capsys.readouterr().err
