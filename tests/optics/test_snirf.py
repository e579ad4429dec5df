"""Optode positions from SNIRF files made with h5py: units, labels, several recordings, damaged files."""

import contextlib
import sys
import time

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.hdf5 import DAMAGE, load_hdf5, read_hdf5
from napari_gpubio.core.reading import noted
from napari_gpubio.optics.io.snirf import PATTERNS, optodes_of, read_snirf
from tests.sentences import says

h5py = pytest.importorskip("h5py", reason="h5py is absent: python -m pip install h5py")

SOURCES = np.array([[-3.0, 8.5, 4.0], [3.0, 8.5, 4.0]])
DETECTORS = np.array([[0.0, 9.0, 5.5], [-5.0, 6.0, 6.0], [5.0, 6.0, 6.0]])


def write(path, *, nirs="nirs", unit="cm", mode="w", probe=None, variable=True):
    """A SNIRF file as the specification (version 1.0) lays it out; ``probe`` changes datasets, None removes one."""
    text = h5py.string_dtype() if variable else None
    datasets = {
        "sourcePos3D": SOURCES,
        "detectorPos3D": DETECTORS,
        "wavelengths": np.array([690.0, 830.0]),
        "sourceLabels": np.array(["left", "right"], dtype=text or "S8"),
        "detectorLabels": np.array(["D1", "D2", "D3"], dtype=text or "S8"),
    } | (probe or {})
    with h5py.File(path, mode) as file:
        if mode == "w":
            file["formatVersion"] = "1.0"
        group = file.create_group(nirs)
        if unit is not None:
            group["metaDataTags/LengthUnit"] = unit if variable else np.bytes_(unit)
        for name, values in datasets.items():
            if values is not None:
                group[f"probe/{name}"] = values
    return path


def optodes(path):
    """As `read_snirf`, in this process, which takes less time."""
    return optodes_of(load_hdf5(path, PATTERNS))


@pytest.mark.daily
@pytest.mark.parametrize("variable", [True, False])
def test_a_probe(tmp_path, variable):
    found = read_snirf(write(tmp_path / "a.snirf", variable=variable))
    np.testing.assert_allclose(found.source_positions_mm, SOURCES * 10)
    np.testing.assert_allclose(found.detector_positions_mm, DETECTORS * 10)
    assert found.sources == ("left", "right")
    assert found.detectors == ("D1", "D2", "D3")
    assert found.wavelengths_nm == (690.0, 830.0)
    assert len(found.notes) == 1
    assert "own coordinate system" in found.notes[0]


@pytest.mark.parametrize(
    ("unit", "mm"), [("mm", 1), ("cm", 10), ("m", 1000), ("um", 1e-3), ("μm", 1e-3), ("meters", 1e3), (None, 1)]
)
def test_units(tmp_path, unit, mm):
    found = optodes(write(tmp_path / "a.snirf", unit=unit))
    np.testing.assert_allclose(found.source_positions_mm, SOURCES * mm)
    assert ("LengthUnit is missing" in found.notes[0]) == (unit is None)


@pytest.mark.parametrize(
    ("labels", "sources"),
    [
        (None, ("S1", "S2")),
        (["one"], ("S1", "S2")),
        ([], ("S1", "S2")),
        ([["a690", "a830"], ["b690", "b830"]], ("a690", "b690")),  # by wavelength
    ],
)
def test_labels_and_a_single_optode(tmp_path, labels, sources):
    texts = None if labels is None else np.array(labels, dtype="S8")
    probe = {"sourceLabels": texts, "detectorLabels": None, "detectorPos3D": np.array([1, 2, 3], np.int32)}
    found = optodes(write(tmp_path / "a.snirf", probe=probe))
    assert (found.sources, found.detectors) == (sources, ("D1",))
    np.testing.assert_allclose(found.detector_positions_mm, [[10, 20, 30]])


def test_several_recordings(tmp_path):
    write(tmp_path / "a.snirf", nirs="nirs1")
    write(tmp_path / "a.snirf", nirs="nirs2", mode="a", probe={"sourcePos3D": SOURCES * 2})
    write(tmp_path / "a.snirf", nirs="nirs10", mode="a", probe={"sourcePos3D": SOURCES * 3})
    found = optodes(tmp_path / "a.snirf")
    np.testing.assert_allclose(found.source_positions_mm, SOURCES * 10)
    assert "3 recordings (nirs1, nirs2, nirs10); nirs1 was read" in found.notes[-1]


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ({"sourcePos3D": None}, "no probe/sourcePos3D; digitize"),
        ({"sourcePos3D": None, "sourcePos2D": SOURCES[:, :2]}, "sourcePos2D is a flat layout, which others have not"),
        ({"detectorPos3D": None}, "no probe/detectorPos3D"),
        ({"sourcePos3D": np.zeros((0, 3))}, "no probe/sourcePos3D"),
        ({"sourcePos3D": h5py.Empty("f8")}, "no probe/sourcePos3D"),
        ({"sourcePos3D": SOURCES.T}, r"shape \(3, 2\); it must be"),
        ({"sourcePos3D": np.array([[1, 2, np.nan]])}, "source 1 is at .*finite"),
        ({"sourcePos3D": np.array([b"here"])}, "not numbers"),
        ({"sourcePos3D": np.zeros((50_000, 3))}, "150000 values"),
    ],
)
def test_wrong_probes(tmp_path, probe, words):
    with pytest.raises(InvalidInput, match=words):
        optodes(write(tmp_path / "a.snirf", probe=probe))


def test_other_files(tmp_path):
    with pytest.raises(InvalidInput, match=r"^a\.snirf: metaDataTags/LengthUnit is 'inch'; known are mm, cm, m"):
        read_snirf(write(tmp_path / "a.snirf", unit="inch"))
    with pytest.raises(InvalidInput, match="does not exist"):
        read_snirf(tmp_path / "none.snirf")
    for content, words in (("data", "not a SNIRF file"), ("nirs/data1/time", "no group /nirs/probe")):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file[content] = 1
        with pytest.raises(InvalidInput, match=words):
            optodes(tmp_path / "a.h5")


def test_damaged_files(tmp_path):
    """Some bytes of a file changed, or its end missing: a sentence, or the positions.

    Most are read in this process, which takes less time; without texts of variable length, with which HDF5 2.0 may
    never come back.
    """
    data = write(tmp_path / "a.snirf", variable=False).read_bytes()
    rng = np.random.default_rng(6)
    refused = 0
    for n in range(200):
        bad = bytearray(data[: len(data) * n // 100] if n < 100 else data)
        for at in rng.integers(0, max(len(bad), 1), 20 if n >= 100 else 0):
            bad[at] = rng.integers(256)
        (tmp_path / "b.snirf").write_bytes(bad)
        try:
            if n % 100 == 49:
                read_snirf(tmp_path / "b.snirf")
            else:
                optodes_of(load_hdf5(tmp_path / "b.snirf", PATTERNS))
        except InvalidInput as error:
            refused += 1
            assert "b.snirf" in str(error) or n % 100 != 49  # noqa: PT017 - what is not refused is fine too
        except DAMAGE:
            refused += 1
    assert refused > 100


def link_to_another_file(group, name, other):
    group[name] = h5py.ExternalLink(other, "/secret")


def link_by_way_of_another_file(group, name, other):
    group["elsewhere"] = h5py.ExternalLink(other, "/")
    group["first"] = h5py.SoftLink("elsewhere/secret")
    group[name] = h5py.SoftLink(f"{group.name}/first")


def numbers_in_another_file(group, name, other):
    group.create_dataset(name, (1, 3), "f8", external=[(other, 0, 24)])


def numbers_of_another_dataset(group, name, other):
    layout = h5py.VirtualLayout((1, 3), "f8")
    layout[:] = h5py.VirtualSource(other, "secret", (1, 3))
    group.create_virtual_dataset(name, layout)


@pytest.mark.parametrize(
    "put", [link_to_another_file, link_by_way_of_another_file, numbers_in_another_file, numbers_of_another_dataset]
)
def test_what_lies_in_another_file_is_never_read(tmp_path, put):
    path, other = write(tmp_path / "a.snirf"), tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["secret"] = np.ones((1, 3))
    with h5py.File(path, "a") as file:
        del file["nirs/probe/sourcePos3D"]
        put(file["nirs/probe"], "sourcePos3D", str(other))
        file["nirs/probe/sourcePos3D"][()]  # the library does
    with pytest.raises(InvalidInput, match=r"^a\.snirf: .*nirs/probe/.*another file.*which is never read"):
        read_snirf(path)


def test_links_within_a_file_are_followed(tmp_path):
    path = write(tmp_path / "a.snirf")
    expected = read_snirf(path)
    with h5py.File(path, "a") as file:
        file.move("nirs/probe", "nirs/moved")
        file["nirs/probe"] = h5py.SoftLink("moved")
        file.move("nirs/moved/sourcePos3D", "places")
        file["nirs/moved/sourcePos3D"] = h5py.SoftLink("/./places")
    found = read_snirf(path)
    np.testing.assert_array_equal(found.source_positions_mm, expected.source_positions_mm)
    with h5py.File(path, "a") as file:
        del file["nirs/probe"]
        file["nirs/probe"] = h5py.SoftLink("/nirs/probe")
    with pytest.raises(InvalidInput, match="no group /nirs/probe"):
        read_snirf(path)


def test_long_values_are_not_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("text", (1,), "S100000000", chunks=(1,))
    assert load_hdf5(tmp_path / "a.h5", ["text"]).sizes == {"/text": 1}


def test_a_file_whose_reading_does_not_end(tmp_path):
    data = bytearray(write(tmp_path / "endless.snirf").read_bytes())
    data[2184] = 152  # h5py 3.16 with HDF5 2.0 never comes back from that
    (tmp_path / "endless.snirf").write_bytes(data)
    begun = time.monotonic()
    with contextlib.suppress(InvalidInput):
        read_hdf5(tmp_path / "endless.snirf", PATTERNS, seconds=0.5)
    assert time.monotonic() - begun < 20
    with pytest.raises(InvalidInput, match=r"^a.snirf was not read within 1e-06 s.* leads nowhere: export it again"):
        read_hdf5(write(tmp_path / "a.snirf"), PATTERNS, seconds=1e-6)


def test_without_h5py(tmp_path, monkeypatch):
    path = write(tmp_path / "a.snirf")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InvalidInput, match=r'pip install "napari-gpubio\[snirf\]"'):
        read_snirf(path)


# -- pairs and landmarks ----------------------------------------------------------------------------------------------


def add_list(path, rows, *, arrays=False):
    with h5py.File(path, "a") as file:
        if arrays:
            for name, column in zip(("sourceIndex", "detectorIndex"), zip(*rows, strict=True), strict=True):
                file[f"nirs/data1/measurementLists/{name}"] = np.array(column)
            return
        for number, (source, detector) in enumerate(rows, 1):
            group = f"nirs/data1/measurementList{number}"
            file[f"{group}/sourceIndex"], file[f"{group}/detectorIndex"] = np.int32(source), np.int32(detector)


@pytest.mark.parametrize("arrays", [False, True])
def test_pairs_of_the_measurement_list(tmp_path, arrays):
    path = write(tmp_path / "a.snirf")
    rows = [(1, 1), (1, 1), (2, 3), (1, 2)] + [(2, 1)] * 8
    add_list(path, rows, arrays=arrays)
    assert optodes(path).pairs == ((0, 0), (1, 2), (0, 1), (1, 0))
    assert optodes(write(tmp_path / "b.snirf")).pairs == ()


def test_a_pair_of_optodes_that_are_not_there_is_left_out(tmp_path):
    path = write(tmp_path / "a.snirf")
    add_list(path, [(1, 1), (3, 1), (2, 2)])
    with noted() as notes:
        assert optodes(path).pairs == ((0, 0), (1, 1))
    assert says("".join(notes), "1 of 3 measurements")


def test_optodes_without_a_position_are_left_out_with_their_pairs(tmp_path):
    path = write(tmp_path / "a.snirf", probe={"sourcePos3D": np.array([[np.nan, 0, 0], SOURCES[1]])})
    add_list(path, [(1, 1), (2, 3)])
    with noted() as notes:
        found = optodes(path)
    assert found.sources == ("right",)
    assert found.pairs == ((0, 2),)
    np.testing.assert_allclose(found.source_positions_mm, SOURCES[1:] * 10)
    assert says("".join(notes), "1 of 2 sources (left)", "1 of 2 measurements")


@pytest.mark.parametrize("columns", [3, 4])
def test_landmarks(tmp_path, columns):
    places = np.array([[0, 9.0, 0, 2], [1.0, 2.0, 3.0, 1]])[:, :columns]
    labels = np.array(["Nz", "LPA"] if columns == 3 else ["LPA", "Nz"], dtype=h5py.string_dtype())
    path = write(tmp_path / "a.snirf", probe={"landmarkPos3D": places, "landmarkLabels": labels})
    assert optodes(path).landmarks_mm == {"Nz": (0.0, 90.0, 0.0), "LPA": (10.0, 20.0, 30.0)}
    assert optodes(write(tmp_path / "b.snirf", probe={"landmarkPos3D": places})).landmarks_mm == {}
