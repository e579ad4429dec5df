"""Write the plugin's treatment phantom as a study of a planning system: CT, structures, doses of two plans, the plans.

python sample_plan.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

from napari_gpubio.dose.samples import PRESCRIPTION_GY, treatment_dose, treatment_structures
from napari_gpubio.dose.structures import inside

TO_PATIENT = np.array([-1.0, -1.0, 1.0])  # from right, anterior, superior to left, posterior, superior
GRID_SCALING = 0.002  # Gy of one stored step
FRACTIONS = 30
HOUNSFIELD = {"body": 20, "left lung": -760, "right lung": -760, "target": 60, "cord": 35}
FRAME, STUDY, STRUCTURES, CT_SERIES = (generate_uid() for _ in range(4))
KINDS = {"CT": "2", "RTDOSE": "481.2", "RTSTRUCT": "481.3", "RTPLAN": "481.5"}


def write_study(folder: str | Path = "study") -> Path:
    """Write all files into a folder, which is made; returns it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_ct(folder)
    write_structures(folder / "structures.dcm")
    dose = treatment_dose()
    for name, values in (("plan A", dose.values), ("plan B", 0.5 * (dose.values + np.roll(dose.values, 3, axis=0)))):
        plan = write_plan(folder / f"{name}.dcm", name)
        write_dose(folder / f"{name} dose.dcm", values, plan, name)
    return folder


def named(kind: str, **values: object) -> Dataset:
    """Return a dataset with what all files of the study have."""
    made = Dataset()
    made.Modality, made.PatientName, made.PatientID = kind, "PHANTOM", "PHANTOM"
    made.StudyInstanceUID, made.SeriesInstanceUID, made.FrameOfReferenceUID = STUDY, generate_uid(), FRAME
    made.SOPClassUID, made.SOPInstanceUID = f"1.2.840.10008.5.1.4.1.1.{KINDS[kind]}", generate_uid()
    for keyword, value in values.items():
        setattr(made, keyword, value)
    return made


def save(made: Dataset, path: Path) -> None:
    """Write a dataset."""
    made.file_meta = about = FileMetaDataset()
    about.MediaStorageSOPClassUID, about.MediaStorageSOPInstanceUID = made.SOPClassUID, made.SOPInstanceUID
    about.TransferSyntaxUID = ExplicitVRLittleEndian
    made.save_as(path, enforce_file_format=True)


def image(kind: str, pixels: np.ndarray, step: float, **values: object) -> Dataset:
    """Return a dataset of stored pixels (frames, rows, columns) of a square size."""
    made = named(kind, **values)
    made.Rows, made.Columns = pixels.shape[-2:]
    made.PixelSpacing, made.ImageOrientationPatient = [step, step], [1, 0, 0, 0, 1, 0]
    made.SamplesPerPixel, made.PhotometricInterpretation = 1, "MONOCHROME2"
    made.PixelRepresentation, made.BitsAllocated, made.BitsStored, made.HighBit = int(kind == "CT"), 16, 16, 15
    made.PixelData = pixels.tobytes()
    return made


def stored(values: np.ndarray) -> np.ndarray:
    """Return an array (X, Y, Z) in world axes as (frames, rows, columns) in patient axes."""
    return np.ascontiguousarray(values[::-1, ::-1].transpose(2, 1, 0))


def write_ct(folder: Path, step: float = 2.0, slice_mm: float = 9.0) -> None:
    """Write a slice every 9 mm, with some noise."""
    shape, affine = (200, 120, 34), np.diag([step, step, slice_mm, 1.0])
    affine[:3, 3] = [-(n - 1) / 2 * affine[i, i] for i, n in enumerate(shape)]
    values = np.full(shape, -1000.0)
    for one in treatment_structures():
        values[inside(one, affine, shape)] = HOUNSFIELD[one.name]
    values += np.random.default_rng(0).normal(0, 12, shape)
    last = affine[:3, :3] @ (np.array(shape) - 1) + affine[:3, 3]
    for n, pixels in enumerate(stored(values.astype(np.int16))):
        first = [-last[0], -last[1], affine[2, 3] + n * slice_mm]
        made = image("CT", pixels, step, ImagePositionPatient=first, SliceThickness=slice_mm, SeriesDescription="CT")
        made.SeriesInstanceUID, made.RescaleSlope, made.RescaleIntercept, made.InstanceNumber = CT_SERIES, 1, 0, n + 1
        save(made, folder / f"ct {n:02}.dcm")


def write_dose(path: Path, values: np.ndarray, plan: str, name: str) -> None:
    """Write a dose (X, Y, Z) on the grid of the phantom's."""
    affine = treatment_dose().affine
    last = affine[:3, :3] @ (np.array(values.shape) - 1) + affine[:3, 3]
    pixels = stored(np.rint(values / GRID_SCALING).astype(np.uint16))
    made = image("RTDOSE", pixels, affine[0, 0], ImagePositionPatient=[-last[0], -last[1], affine[2, 3]])
    made.NumberOfFrames, made.FrameIncrementPointer = len(pixels), (0x3004, 0x000C)
    made.GridFrameOffsetVector = [affine[2, 2] * n for n in range(len(pixels))]
    made.DoseUnits, made.DoseType, made.DoseSummationType = "GY", "PHYSICAL", "PLAN"
    made.DoseGridScaling, made.SeriesDescription = str(GRID_SCALING), f"dose of {name}"
    made.ReferencedRTPlanSequence = [refers("RTPLAN", plan)]
    save(made, path)


def refers(kind: str, uid: str) -> Dataset:
    """Return a reference to another file."""
    made = Dataset()
    made.ReferencedSOPClassUID, made.ReferencedSOPInstanceUID = f"1.2.840.10008.5.1.4.1.1.{KINDS[kind]}", uid
    return made


def write_structures(path: Path) -> None:
    """Write the contours of all structures."""
    made = named("RTSTRUCT", StructureSetLabel="ORGANS", SOPInstanceUID=STRUCTURES)
    made.StructureSetROISequence, made.ROIContourSequence = [], []
    for number, one in enumerate(treatment_structures(), start=1):
        roi, drawn = Dataset(), Dataset()
        roi.ROINumber, roi.ROIName, roi.ReferencedFrameOfReferenceUID = number, one.name, FRAME
        drawn.ReferencedROINumber, drawn.ROIDisplayColor, drawn.ContourSequence = number, list(one.color or ()), []
        for loop in one.world_loops:
            item = Dataset()
            item.ContourGeometricType, item.NumberOfContourPoints = "CLOSED_PLANAR", len(loop)
            item.ContourData = [f"{value:.6g}" for value in np.ravel(loop * TO_PATIENT)]
            drawn.ContourSequence.append(item)
        made.StructureSetROISequence.append(roi)
        made.ROIContourSequence.append(drawn)
    save(made, path)


def write_plan(path: Path, name: str) -> str:
    """Write a plan with the phantom's prescription; returns how others refer to it."""
    made = named("RTPLAN", RTPlanLabel=name)
    target, group = Dataset(), Dataset()
    target.DoseReferenceNumber, target.DoseReferenceStructureType, target.DoseReferenceType = 1, "SITE", "TARGET"
    target.DoseReferenceDescription, target.TargetPrescriptionDose = "target", str(PRESCRIPTION_GY)
    group.FractionGroupNumber, group.NumberOfFractionsPlanned, group.ReferencedBeamSequence = 1, FRACTIONS, []
    made.DoseReferenceSequence, made.FractionGroupSequence = [target], [group]
    made.ReferencedStructureSetSequence = [refers("RTSTRUCT", STRUCTURES)]
    save(made, path)
    return str(made.SOPInstanceUID)


if __name__ == "__main__":
    print(f"written: {write_study(*sys.argv[1:])}")
