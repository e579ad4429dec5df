"""Probes of BIDS-NIRS folders: tables of optodes, units, landmarks, channels, and what is wrong with them."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.io.bids_nirs import read_optodes_tsv
from napari_gpubio.probes.forward import read_probe

TABLE = "name\ttype\tx\ty\tz\nS1\tsource\t1\t2\t3\nD1\tdetector\t4\t5\t6\nD2\tdetector\t7\t8\t9.5\n"
SYSTEM = '{"NIRSCoordinateSystem": "Other", "NIRSCoordinateUnits": "cm", "FiducialsCoordinates": {"Nz": [1, 2, 3]}}'
CHANNELS = (
    "name\ttype\tsource\tdetector\twavelength_nominal\n"
    "S1-D2 760\tNIRSCWAMPLITUDE\tS1\tD2\t760\nS1-D2 850\tNIRSCWAMPLITUDE\tS1\tD2\t850\nACC\tACCEL\tn/a\tn/a\tn/a\n"
)


def write(folder, table=TABLE, system=SYSTEM, channels=None):
    path = folder / "sub-01_task-x_optodes.tsv"
    path.write_text(table)
    if system is not None:
        (folder / "sub-01_coordsystem.json").write_text(system)
    if channels is not None:
        (folder / "sub-01_task-x_channels.tsv").write_text(channels)
    return path


def test_optodes_units_and_landmarks(tmp_path):
    found = read_optodes_tsv(write(tmp_path))
    assert found.sources == ("S1",)
    assert found.detectors == ("D1", "D2")
    np.testing.assert_allclose(found.source_positions_mm, [[10, 20, 30]])
    np.testing.assert_allclose(found.detector_positions_mm, [[40, 50, 60], [70, 80, 95]])
    assert found.landmarks_mm == {"Nz": (10.0, 20.0, 30.0)}
    assert found.pairs == ()


def test_channels_tell_pairs_and_wavelengths(tmp_path):
    found = read_probe(write(tmp_path, channels=CHANNELS))
    assert found.pairs == ((0, 1),)
    assert found.wavelengths_nm == (760.0, 850.0)


def test_without_a_unit_positions_are_millimeters(tmp_path):
    found = read_optodes_tsv(write(tmp_path, system=None))
    np.testing.assert_allclose(found.source_positions_mm, [[1, 2, 3]])
    assert "taken as mm" in found.notes[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": TABLE.replace("\tz\n", "\tw\n", 1)}, "no column 'z'"),
        ({"table": TABLE.replace("9.5", "high")}, "optode D2 has z = 'high'"),
        ({"table": TABLE.replace("source", "detector")}, "no source"),
        ({"system": SYSTEM.replace('"cm"', '"inch"')}, "is 'inch'"),
        ({"system": "{"}, "not valid JSON"),
        ({"system": "[]"}, "not a JSON object"),
        ({"table": "\n"}, "no column"),
        ({"table": TABLE + "a" * 200_000}, "no table .*field larger than field limit"),
        ({"channels": CHANNELS + "a" * 200_000}, "channels.tsv is no table .*field larger than field limit"),
        ({"table": TABLE.replace("D2", "D1")}, "row 3 is another detector of the name 'D1'"),
        ({"channels": CHANNELS.replace("\tS1\tD2\t850", "\tS1\tD7\t850")}, "channels.tsv: row 2 .*'D7'"),
        ({"channels": CHANNELS.replace("\tS1\t", "\tT1\t")}, "row 1 has the source 'T1'"),
    ],
)
def test_what_is_no_probe_is_refused_by_name(tmp_path, changes, message):
    path = write(tmp_path, **changes)
    with pytest.raises(InvalidInput, match=message) as refused:
        read_optodes_tsv(path)
    assert "sub-01" in str(refused.value)


def test_files_of_other_kinds_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no probe that can be read"):
        read_probe(tmp_path / "probe.csv")
