"""CT series as volumes."""

import numpy as np

from napari_gpubio.dose.io import read_ct
from napari_gpubio.dose.reader import read_layers
from tests.conformance import Did, Rows
from tests.dose.dicom_files import FRAME, save_ct, save_dose

ROWS = Rows("CT series")
STORED = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7) * 10


def hounsfield(ct) -> np.ndarray:
    """Slices, rows, columns as they were stored."""
    return np.asarray(ct.values, np.float64).transpose(2, 1, 0) + 1024


@ROWS.row("read_ct", "an ordinary series", Did.READ)
def _(folder):
    save_ct(folder, STORED)
    ct = read_ct(folder)
    np.testing.assert_array_equal(hounsfield(ct), STORED)
    return ct


def ct_row(trait, did, each, expected, *facts):
    @ROWS.row("read_ct", trait, did, *facts)
    def _(folder):
        save_ct(folder, STORED, each=each)
        ct = read_ct(folder)
        np.testing.assert_allclose(hounsfield(ct), expected, atol=0.51)
        return ct


between = 0.5 * (STORED[1].astype(float) + STORED[3])
ct_row(
    "a missing slice", Did.ASSUMED, lambda n: {"remove": n == 2},
    [STORED[0], STORED[1], between, STORED[3], STORED[4]], "3 to 6 mm apart", "interpolated linearly",
)  # fmt: skip
ct_row(
    "slices 6 mm apart that become 3 mm apart", Did.ASSUMED, lambda n: {"offset": (0, 0, 3.0 * min(n, 2))},
    [STORED[0], 0.5 * (STORED[0] + STORED[1]), STORED[1], 0.5 * (STORED[1] + STORED[2]), *STORED[2:]],
    "3 to 6 mm apart", "7 slices 3 mm apart",
)  # fmt: skip
ct_row(
    "positions rounded to 0.1 mm", Did.ASSUMED, lambda n: {"offset": (0, 0, 0.1 * (n == 2))}, STORED,
    "0.1 mm beside", "3 mm apart",
)  # fmt: skip
ct_row(
    "a slice displaced by 0.4 mm", Did.ASSUMED, lambda n: {"offset": (0, 0, 0.4 * (n == 2))},
    [*STORED[:2], STORED[1] + (STORED[2] - STORED[1]) * (3 / 3.4), *STORED[3:]], "2.6 to 3.4 mm apart",
)  # fmt: skip
ct_row(
    "two slices in one place", Did.LEFT_OUT, lambda n: {"offset": (0, 0, -3.0 * (n == 2)), "InstanceNumber": n},
    [STORED[0], STORED[1], between, STORED[3], STORED[4]], "1 slices", "where others do",
)  # fmt: skip
ct_row(
    "a slice of another patient", Did.LEFT_OUT, lambda n: {"PatientID": "2" if n == 2 else "1"},
    [STORED[0], STORED[1], between, STORED[3], STORED[4]], "1 slices", "another patient",
)  # fmt: skip
ct_row(
    "a slice of another pixel size", Did.LEFT_OUT, lambda n: {"PixelSpacing": [1.5, 2.0 + (n == 0)]}, STORED[1:],
    "1 slices", "another size",
)  # fmt: skip
ct_row(
    "a slice of another orientation", Did.LEFT_OUT,
    lambda n: {"ImageOrientationPatient": [1, 0, 0, 0, 1, 0][:: 1 - 2 * (n == 0)]}, STORED[1:], "1 slices",
)  # fmt: skip
ct_row(
    "a slice without position", Did.LEFT_OUT, lambda n: {"ImagePositionPatient": None} if n == 0 else {}, STORED[1:],
    "1 files", "ImagePositionPatient",
)  # fmt: skip
ct_row(
    "a slice without pixels", Did.LEFT_OUT, lambda n: {"PixelData": b"12"} if n == 4 else {}, STORED[:4],
    "1 files", "cannot be read",
)  # fmt: skip


ct_row(
    "negative pixels of 12 bits, with zeros before their sign", Did.ASSUMED,
    lambda n: {"BitsStored": 12, "HighBit": 11, "PixelData": ((STORED[n] - 2048) & 0xFFF).astype("<u2").tobytes()},
    STORED - 2048, "12 bits", "negative",
)  # fmt: skip
ct_row(
    "pixels beyond BitsStored, negative ones among them", Did.ASSUMED,
    lambda n: {"BitsStored": 8, "HighBit": 7, "PixelData": (STORED - np.int16(500) * (STORED % 20 > 0))[n].tobytes()},
    STORED - 500 * (STORED % 20 > 0), "all 16",
)  # fmt: skip
ct_row("values that are no Hounsfield units", Did.ASSUMED, lambda n: {"RescaleType": "US"}, STORED, "RescaleType US")
ct_row(
    "slices without RescaleSlope", Did.ASSUMED, lambda n: {"RescaleSlope": None, "RescaleIntercept": None},
    STORED + 1024, "5 slices", "RescaleSlope",
)  # fmt: skip


@ROWS.row("read_ct", "no slice with a position", Did.REFUSED, "ImagePositionPatient")
def _(folder):
    save_ct(folder, STORED, each=lambda n: {"ImagePositionPatient": None})
    return read_ct(folder)


ct_row(
    "slices without RescaleIntercept", Did.ASSUMED, lambda n: {"RescaleIntercept": None}, STORED + 1024,
    "5 slices", "RescaleIntercept",
)  # fmt: skip
ct_row("a slice whose RescaleSlope is empty", Did.ASSUMED, lambda n: {"RescaleSlope": ""} if n == 1 else {}, STORED,
       "1 slices", "RescaleSlope")  # fmt: skip
ct_row("slices whose RescaleSlope is 0", Did.ASSUMED, lambda n: {"RescaleSlope": 0}, STORED, "5 slices", "RescaleSlope")
ct_row(
    "two RescaleSlopes", Did.READ, lambda n: {"RescaleSlope": 1 + n % 2}, STORED * (1 + np.arange(5) % 2)[:, None, None]
)
ct_row("a slice that is in other units", Did.ASSUMED, lambda n: {"RescaleType": "US" if n == 3 else "HU"}, STORED, "US")
ct_row("a SliceThickness of -2", Did.READ, lambda n: {"SliceThickness": -2}, STORED)
for spacing, rounded in (("0.9765625", "0.97656"), ("0.9765001", "0.9764999"), ("0.9765", "0.97649"), ("5.001", "5")):
    ct_row(
        f"PixelSpacing of {spacing} and {rounded} by turns", Did.READ,
        lambda n, both=(spacing, rounded): {"PixelSpacing": [both[n % 2]] * 2}, STORED,
    )  # fmt: skip
ct_row("slices without frame of reference", Did.READ, lambda n: {"FrameOfReferenceUID": None} if n > 1 else {}, STORED)


@ROWS.row("read_ct", "a series in two frames of reference", Did.ASSUMED, "2 frames of reference", "2 CT series")
def _(folder):
    save_ct(folder, STORED, each=lambda n: {"FrameOfReferenceUID": "9.8"} if n > 2 else {})
    ct = read_ct(folder)
    np.testing.assert_array_equal(hounsfield(ct), STORED[:3])
    assert ct.frame_of_reference == FRAME
    return ct


@ROWS.row("read_ct", "a single slice of -2 mm", Did.ASSUMED, "1 mm thick", "-2 mm")
def _(folder):
    save_ct(folder, STORED[:1], each=lambda n: {"SliceThickness": -2})
    return read_ct(folder)


@ROWS.row("File > Open", "a tilted gantry: what is around the slices", Did.ASSUMED, "tilted by 14.9 degrees")
def _(folder):
    save_ct(folder, STORED, each=lambda n: {"offset": (0, 0.8 * n, 0)})
    ((shown, _, _),) = read_layers(str(folder))
    assert np.asarray(shown).min() == -1024  # air
    assert (np.asarray(shown)[-1, -1] == -1024).all()
    return read_ct(folder)


@ROWS.row("read_ct", "a tilted gantry", Did.ASSUMED, "tilted by 14.9 degrees", "each slice is kept")
def _(folder):
    save_ct(folder, STORED, each=lambda n: {"offset": (0, 0.8 * n, 0)})
    ct = read_ct(folder)
    np.testing.assert_array_equal(hounsfield(ct), STORED)
    for n in range(5):  # the first pixel of each slice, as the files have it
        np.testing.assert_allclose((ct.affine @ (0, 0, n, 1))[:3], (-10, 20 - 0.8 * n, 30 + 3 * n), atol=1e-6)
    return ct


@ROWS.row("read_ct", "a slice that was cut off", Did.LEFT_OUT, "1 files", "may be slices")
def _(folder):
    files = save_ct(folder, STORED)
    files[4].write_bytes(files[4].read_bytes()[:600])
    ct = read_ct(folder)
    np.testing.assert_array_equal(hounsfield(ct), STORED[:4])
    return ct


@ROWS.row("read_ct", "two series", Did.ASSUMED, "2 CT series", "1.2.0 (3 slices)", "1.2.1 (2 slices)")
def _(folder):
    save_ct(folder, STORED, each=lambda n: {"SeriesInstanceUID": f"1.2.{n % 2}"})
    ct = read_ct(folder)
    np.testing.assert_array_equal(hounsfield(ct), STORED[::2])
    return ct


@ROWS.row("read_ct(series=...)", "two series", Did.READ)
def _(folder):
    save_ct(folder, STORED, each=lambda n: {"SeriesInstanceUID": f"1.2.{n % 2}"})
    ct = read_ct(folder, series="1.2.1")
    np.testing.assert_array_equal(hounsfield(ct), STORED[1::2])
    return ct


@ROWS.row("read_ct", "a single slice without thickness", Did.ASSUMED, "1 mm thick")
def _(folder):
    save_ct(folder, STORED[:1], each=lambda n: {"SliceThickness": None})
    ct = read_ct(folder)
    np.testing.assert_array_equal(hounsfield(ct), STORED[:1])
    return ct


@ROWS.row("read_ct", "a folder without CT", Did.REFUSED, "no CT slices")
def _(folder):
    save_dose(folder / "dose.dcm", STORED.astype(np.uint16))
    return read_ct(folder)
