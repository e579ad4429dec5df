"""Doses, and structures as labels: DICOM RT files and NIfTI."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from pydicom import dcmread
from pydicom.dataset import Dataset

from napari_gpubio.dose import dvh, sum_of_doses
from napari_gpubio.dose.io import (
    nifti,
    read_dvh_sequence,
    read_rtdose,
    read_rtdoses,
    write_dvh_sequence,
)
from tests.conformance import Did, Rows
from tests.dose.dicom_files import save_dose
from tests.dose.samples import affine_of

ROWS = Rows("Radiation doses")
PIXELS = np.arange(4 * 5 * 6, dtype=np.uint16).reshape(4, 5, 6) * 30

# -- doses ------------------------------------------------------------------------------------------------------------


def z_of_frames(dose) -> list[float]:
    return [float(z) for z in (dose.affine @ [[0] * 4, [0] * 4, range(4), [1] * 4])[2]]


def frames_row(trait, did, changes, expected, *facts):
    @ROWS.row("read_rtdose", trait, did, *facts)
    def _(folder):
        dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS, **changes))
        np.testing.assert_allclose(z_of_frames(dose), expected)
        np.testing.assert_allclose(dose.values, PIXELS.transpose(2, 1, 0) * 0.01)
        return dose


AGAINST = [1, 0, 0, 0, -1, 0]  # the normal runs down
frames_row("frames at offsets from the first", Did.READ, {}, [30, 34, 38, 42])
frames_row("frames at patient coordinates", Did.READ, {"GridFrameOffsetVector": [30, 34, 38, 42]}, [30, 34, 38, 42])
frames_row(
    "frame offsets of neither convention", Did.ASSUMED, {"GridFrameOffsetVector": [7, 11, 15, 19]}, [30, 34, 38, 42],
    "7 mm", "z = 30 mm",
)  # fmt: skip
frames_row("offsets along a normal that runs down", Did.READ, {"ImageOrientationPatient": AGAINST}, [30, 26, 22, 18])
frames_row(
    "patient coordinates against the normal", Did.ASSUMED,
    {"ImageOrientationPatient": AGAINST, "GridFrameOffsetVector": [30, 34, 38, 42]}, [30, 34, 38, 42], "coordinates z",
)  # fmt: skip
frames_row(
    "no frame offsets, but a thickness", Did.ASSUMED, {"GridFrameOffsetVector": None, "SliceThickness": 4},
    [30, 34, 38, 42], "4 frames", "4 mm apart",
)  # fmt: skip


@ROWS.row("read_rtdose", "frames out of order", Did.ASSUMED, "sorted")
def _(folder):
    dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS, GridFrameOffsetVector=[0, 4, 12, 8]))
    np.testing.assert_allclose(z_of_frames(dose), [30, 34, 38, 42])
    np.testing.assert_allclose(dose.values, PIXELS[[0, 1, 3, 2]].transpose(2, 1, 0) * 0.01)
    return dose


@ROWS.row("read_rtdose", "two frames at one place", Did.REFUSED, "one place")
def _(folder):
    return read_rtdose(save_dose(folder / "d.dcm", PIXELS, GridFrameOffsetVector=[0, 4, 8, 8]))


@ROWS.row("read_rtdose", "unevenly spaced frames", Did.ASSUMED, "interpolated linearly", "5 frames 4 mm")
def _(folder):
    dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS, GridFrameOffsetVector=[0, 4, 8, 16]))
    np.testing.assert_allclose(dose.values[:, :, 3], (PIXELS[2] + PIXELS[3]).T * 0.005)
    return dose


def meaning_row(trait, changes, *facts, is_of_plan=False):
    @ROWS.row("read_rtdose", trait, Did.ASSUMED if facts else Did.READ, *facts)
    def _(folder):
        dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS, **changes))
        np.testing.assert_allclose(dose.values, PIXELS.transpose(2, 1, 0) * 0.01)
        assert dose.is_of_plan is is_of_plan
        return dose


meaning_row("the dose of a plan", {}, is_of_plan=True)
meaning_row("no DoseSummationType", {"DoseSummationType": None}, "DoseSummationType", "taken", is_of_plan=True)
for summation in ("BEAM", "FRACTION", "MULTI_PLAN", "CONTROL_POINT", "BRACHY", "FRACTION_SESSION", "RECORD"):
    meaning_row(f"DoseSummationType {summation}", {"DoseSummationType": summation}, summation, "not of a plan")
meaning_row("DoseType ERROR", {"DoseType": "ERROR"}, "errors of a dose")
meaning_row("DoseType EFFECTIVE", {"DoseType": "EFFECTIVE"}, "biological effect", is_of_plan=True)
meaning_row("no DoseType", {"DoseType": None}, "DoseType", "physical", is_of_plan=True)


@ROWS.row("read_rtdose", "relative doses", Did.REFUSED, "RELATIVE", "unit=")
def _(folder):
    return read_rtdose(save_dose(folder / "d.dcm", PIXELS, DoseUnits="RELATIVE"))


@ROWS.row("read_rtdose(unit='%')", "relative doses", Did.READ)
def _(folder):
    dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS, DoseUnits="RELATIVE"), unit="%")
    assert (dose.unit, dose.largest) == ("%", pytest.approx(0.01 * PIXELS.max()))
    return dose


@ROWS.row("read_rtdose", "no scaling", Did.REFUSED, "DoseGridScaling")
def _(folder):
    return read_rtdose(save_dose(folder / "d.dcm", PIXELS, DoseGridScaling=None))


def float_row(keyword, kind, *facts, **changes):
    @ROWS.row(
        "read_rtdose", f"{keyword}, and {'no' if facts else 'a'} scaling", Did.ASSUMED if facts else Did.READ, *facts
    )
    def _(folder):
        made = {keyword: PIXELS.astype(kind).tobytes(), "BitsAllocated": 8 * np.dtype(kind).itemsize, **changes}
        dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS, PixelData=None, BitsStored=None, HighBit=None, **made))
        np.testing.assert_allclose(dose.values, PIXELS.transpose(2, 1, 0) * (1.0 if facts else 0.01))
        return dose


float_row("FloatPixelData", "<f4")
float_row("DoubleFloatPixelData", "<f8", "without DoseGridScaling", "3570 Gy", DoseGridScaling=None)


def value_row(trait, pixels, *facts, **changes):
    @ROWS.row("read_rtdose", trait, Did.ASSUMED, *facts)
    def _(folder):
        dose = read_rtdose(save_dose(folder / "d.dcm", pixels, **changes))
        np.testing.assert_allclose(dose.values, pixels.transpose(2, 1, 0) * float(changes.get("DoseGridScaling", 0.01)))
        return dose


value_row("a dose of 0 everywhere", 0 * PIXELS, "0 everywhere")
value_row("negative doses", PIXELS.astype(np.int16) - 60, "2 voxels", "negative", "-0.6 Gy", PixelRepresentation=1)
value_row("a dose in cGy", PIXELS, "3570 Gy", "cGy", DoseGridScaling="1")


@ROWS.row("read_rtdose", "a single frame without thickness", Did.ASSUMED, "single frame", "1 mm thick")
def _(folder):
    dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS[:1] + 1, GridFrameOffsetVector=None))
    assert dose.values.shape == (6, 5, 1)
    return dose


@ROWS.row("read_rtdose", "frame offsets that were rounded to 0.1 mm", Did.READ)
def _(folder):
    dose = read_rtdose(save_dose(folder / "d.dcm", PIXELS, GridFrameOffsetVector=[0, 1.2, 2.5, 3.8]))
    np.testing.assert_allclose(dose.values, PIXELS.transpose(2, 1, 0) * 0.01)
    return dose


@ROWS.row("read_rtdose", "a scaling of 0", Did.ASSUMED, "DoseGridScaling is 0")
def _(folder):
    return read_rtdose(save_dose(folder / "d.dcm", PIXELS, DoseGridScaling="0"))


def plane_files(folder, order=range(4), **changes):
    """Each plane of the dose in a file of its own."""
    return [
        save_dose(
            folder / f"d{n}.dcm", PIXELS[n : n + 1], first=(10.0, -20.0, 30.0 + 4 * n), GridFrameOffsetVector=None,
            **changes,
        )
        for n in order
    ]  # fmt: skip


@ROWS.row("read_rtdoses", "each plane in a file", Did.ASSUMED, "3 other files", "joined")
def _(folder):
    (found,) = read_rtdoses(plane_files(folder, (2, 0, 3, 1)))
    np.testing.assert_allclose(z_of_frames(found.dose), [30, 34, 38, 42])
    np.testing.assert_allclose(found.dose.values, PIXELS.transpose(2, 1, 0) * 0.01)
    return found.dose


@ROWS.row("read_rtdoses", "planes of which one is missing", Did.ASSUMED, "joined", "interpolated linearly to 4 frames")
def _(folder):
    (found,) = read_rtdoses(plane_files(folder, (0, 1, 3)))
    np.testing.assert_allclose(z_of_frames(found.dose), [30, 34, 38, 42])
    np.testing.assert_allclose(found.dose.values[:, :, 2], (PIXELS[1] + PIXELS[3]).T * 0.005)
    return found.dose


@ROWS.row("read_rtdoses", "one of two files damaged", Did.LEFT_OUT, "d2.dcm", "left out")
def _(folder):
    files = [save_dose(folder / f"d{n}.dcm", PIXELS) for n in (1, 2)]
    files[1].write_bytes(files[1].read_bytes()[:700])
    (found,) = read_rtdoses(files)
    np.testing.assert_allclose(found.dose.values, PIXELS.transpose(2, 1, 0) * 0.01)
    return found.dose


@ROWS.row("sum_of_doses", "a dose, and errors of a dose", Did.REFUSED, "error", "cannot be added")
def _(folder):
    files = [save_dose(folder / f"{kind}.dcm", PIXELS, DoseType=kind) for kind in ("PHYSICAL", "ERROR")]
    return sum_of_doses([read_rtdose(file) for file in files])


@ROWS.row("sum_of_doses", "a physical and an effective dose", Did.ASSUMED, "'EFFECTIVE.dcm'", "'PHYSICAL.dcm' is not")
def _(folder):
    files = [save_dose(folder / f"{kind}.dcm", PIXELS, DoseType=kind) for kind in ("PHYSICAL", "EFFECTIVE")]
    return sum_of_doses([read_rtdose(file) for file in files])


@ROWS.row("read_rtdose", "a negative distance of pixels", Did.REFUSED, "PixelSpacing", "[-2, 2]", "positive")
def _(folder):
    return read_rtdose(save_dose(folder / "a.dcm", PIXELS, PixelSpacing=[-2, 2]))


# -- stored histograms ------------------------------------------------------------------------------------------------


def histogram(number, units="CM3", *others):
    """An item of a DVH sequence: 8 cc of 1 Gy and more, 4 cc of 2 Gy and more."""
    item, rois = Dataset(), []
    for roi, kind in ((number, "INCLUDED"), *others):
        rois.append(Dataset())
        rois[-1].ReferencedROINumber, rois[-1].DVHROIContributionType = roi, kind
    item.DVHReferencedROISequence, item.DVHType, item.DoseUnits, item.DoseType = rois, "CUMULATIVE", "GY", "PHYSICAL"
    item.DVHDoseScaling, item.DVHVolumeUnits, item.DVHNumberOfBins = 1, units, 3
    item.DVHData = [1, 8, 1, 8, 1, 4]
    return item


def stored(folder, *items):
    path = save_dose(folder / "d.dcm", PIXELS, DVHSequence=list(items))
    return read_dvh_sequence(path, {1: "PTV", 2: "GTV"})


@ROWS.row("read_dvh_sequence", "a histogram in cc", Did.READ)
def _(folder):
    (found,) = stored(folder, histogram(1))
    assert (found.name, found.volume_cc, float(found.volume_at(2.0))) == ("PTV", 8.0, 4.0)
    return found


@ROWS.row("read_dvh_sequence", "one of two histograms in %", Did.LEFT_OUT, "1 histograms", "PERCENT")
def _(folder):
    (found,) = stored(folder, histogram(1), histogram(2, "PERCENT"))
    assert found.name == "PTV"
    return found


@ROWS.row("read_dvh_sequence", "only a histogram in %", Did.REFUSED, "'GTV'", "PERCENT")
def _(folder):
    return stored(folder, histogram(2, "PERCENT"))


@ROWS.row("read_dvh_sequence", "a histogram of a structure without another one", Did.READ)
def _(folder):
    (found,) = stored(folder, histogram(1, "CM3", (2, "EXCLUDED")))
    assert found.name == "PTV - GTV"
    return found


@ROWS.row("write_dvh_sequence", "two structures with one number", Did.REFUSED, "'PTV' and 'new'", "number 1")
def _(folder):
    source = save_dose(folder / "d.dcm", PIXELS)
    dvhs = stored(folder, histogram(1))
    return write_dvh_sequence(folder / "out.dcm", dvhs, {"PTV": 1, "new": 1}, source)


# -- NIfTI ------------------------------------------------------------------------------------------------------------

AFFINE = affine_of(2.0, (-19, -19, -19))
RAMP = (40 + 0.3 * (2.0 * np.indices((20, 20, 20))[0] - 19)).astype(np.float32)


def labels_file(folder, affine, shape=(20, 20, 20)) -> Path:
    labels = np.zeros(shape, np.uint8)
    labels[5:10, 5:10, 5:10] = 1
    image = nib.Nifti1Image(labels, affine)
    if affine is None:
        image.header.set_zooms((2, 2, 2))
        image.header["sform_code"] = image.header["qform_code"] = 0
    nib.save(image, folder / "labels.nii.gz")
    return folder / "labels.nii.gz"


def mean_of_labels(folder, affine, shape=(20, 20, 20)):
    nib.save(nib.Nifti1Image(RAMP, AFFINE), folder / "dose.nii.gz")
    dose = nifti.read_dose(folder / "dose.nii.gz", unit="Gy")
    return dvh(dose, nifti.read_labels(labels_file(folder, affine, shape)), device="cpu").dvhs[0]


@ROWS.row("dvh", "NIfTI labels on the grid of a NIfTI dose", Did.READ)
def _(folder):
    found = mean_of_labels(folder, AFFINE)
    assert found.mean == pytest.approx(38.5, abs=1e-3)
    return found


@ROWS.row("dvh", "NIfTI labels without orientation, a dose with one", Did.ASSUMED, "no orientation", "voxel by voxel")
def _(folder):
    found = mean_of_labels(folder, None)
    assert found.mean == pytest.approx(38.5, abs=1e-3)
    return found


@ROWS.row("nifti.read_dose", "a voxel that is NaN", Did.LEFT_OUT, "1 of the 8000 voxels", "NaN", "count as 0")
def _(folder):
    values = RAMP.copy()
    values[3, 4, 5] = np.nan
    nib.save(nib.Nifti1Image(values, AFFINE), folder / "dose.nii.gz")
    dose = nifti.read_dose(folder / "dose.nii.gz", unit="Gy")
    np.testing.assert_array_equal(dose.values, np.nan_to_num(values))
    return dose


@ROWS.row("nifti.read_dose", "a voxel that is infinite", Did.REFUSED, "1 of the 8000 voxels", "infinite")
def _(folder):
    values = RAMP.copy()
    values[3, 4, 5] = np.inf
    nib.save(nib.Nifti1Image(values, AFFINE), folder / "dose.nii.gz")
    return nifti.read_dose(folder / "dose.nii.gz", unit="Gy")


@ROWS.row("nifti.read_labels", "a voxel that is NaN", Did.LEFT_OUT, "1 voxels", "background")
def _(folder):
    values = np.array([[[0, 1, 7], [np.nan, 1, 7]]], np.float32)
    nib.save(nib.Nifti1Image(values, AFFINE), folder / "labels.nii.gz")
    labels = nifti.read_labels(folder / "labels.nii.gz")
    np.testing.assert_array_equal(labels.labels, [[[0, 1, 7], [0, 1, 7]]])
    return labels


@ROWS.row("dvh", "NIfTI labels without orientation, of another size", Did.ASSUMED, "no orientation")
def _(folder):
    return mean_of_labels(folder, None, (20, 20, 22))


@ROWS.row("read_rtdose", "more bits than BitsStored says", Did.ASSUMED, "BitsStored is 10", "16")
def _(folder):
    dataset = dcmread(save_dose(folder / "d.dcm", PIXELS))
    dataset.BitsStored, dataset.HighBit = 10, 9
    dataset.save_as(folder / "d.dcm")
    dose = read_rtdose(folder / "d.dcm")
    np.testing.assert_allclose(dose.values, PIXELS.transpose(2, 1, 0) * 0.01)
    return dose
