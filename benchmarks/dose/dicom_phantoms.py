"""Doses and contours as the DICOM files that other programs read."""

from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

from dose.plan import loops_of
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.structures.contours import ContourStructure

_SCALING = 1e-7  # Gy a step of 32 bits
_LPS = (-1.0, -1.0, 1.0)  # to patient axes


def write_pair(folder: Path, name: str, structure: ContourStructure, dose: Dose) -> tuple[Path, Path]:
    """Write an RTSTRUCT and an RTDOSE file of one frame of reference; returns their paths."""
    frame, study = generate_uid(), generate_uid()
    made = _structures(structure, frame), _dose(dose, frame)
    paths = folder / f"{name}_rtss.dcm", folder / f"{name}_rtdose.dcm"
    for dataset, path in zip(made, paths, strict=True):
        dataset.StudyInstanceUID, dataset.SeriesInstanceUID = study, generate_uid()
        _save(dataset, path)
    return paths


def _save(dataset: Dataset, path: Path) -> None:
    dataset.PatientName = dataset.PatientID = "PHANTOM"
    dataset.SOPInstanceUID = generate_uid()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.save_as(path, enforce_file_format=True)


def _structures(structure: ContourStructure, frame: str) -> Dataset:
    dataset, roi, drawn, referenced = Dataset(), Dataset(), Dataset(), Dataset()
    dataset.SOPClassUID, dataset.Modality = "1.2.840.10008.5.1.4.1.1.481.3", "RTSTRUCT"
    dataset.StructureSetLabel, dataset.FrameOfReferenceUID = "PHANTOM", frame
    roi.ROINumber, roi.ROIName, roi.ReferencedFrameOfReferenceUID = 1, structure.name, frame
    referenced.ReferencedROINumber, referenced.RTROIInterpretedType, referenced.ObservationNumber = 1, "ORGAN", 1
    drawn.ReferencedROINumber, drawn.ROIDisplayColor, drawn.ContourSequence = 1, [255, 0, 0], []
    for loop in loops_of(structure):
        item = Dataset()
        item.ContourGeometricType, item.NumberOfContourPoints = "CLOSED_PLANAR", len(loop)
        item.ContourData = [f"{value:.8g}" for value in (loop * _LPS).ravel()]
        drawn.ContourSequence.append(item)
    dataset.StructureSetROISequence, dataset.ROIContourSequence = [roi], [drawn]
    dataset.RTROIObservationsSequence = [referenced]
    return dataset


def _dose(dose: Dose, frame: str) -> Dataset:
    """Of a grid along the world's axes; turned over along x and y, which patient axes run against."""
    d = Dataset()
    d.SOPClassUID, d.Modality, d.FrameOfReferenceUID = "1.2.840.10008.5.1.4.1.1.481.2", "RTDOSE", frame
    pixels = np.round(dose.values[::-1, ::-1].transpose(2, 1, 0) / _SCALING).astype(np.uint32)
    size = dose.voxel_sizes_mm
    last = dose.affine[:3, :3] @ [dose.values.shape[0] - 1, dose.values.shape[1] - 1, 0] + dose.affine[:3, 3]
    d.NumberOfFrames, d.Rows, d.Columns = pixels.shape
    d.ImagePositionPatient, d.ImageOrientationPatient = (last * _LPS).tolist(), [1, 0, 0, 0, 1, 0]
    d.PixelSpacing, d.SliceThickness = [float(size[1]), float(size[0])], float(size[2])
    d.FrameIncrementPointer = (0x3004, 0x000C)
    d.GridFrameOffsetVector = [float(size[2] * n) for n in range(len(pixels))]
    d.SamplesPerPixel, d.PhotometricInterpretation, d.PixelRepresentation = 1, "MONOCHROME2", 0
    d.BitsAllocated = d.BitsStored = 32
    d.HighBit, d.DoseUnits, d.DoseType, d.DoseSummationType = 31, "GY", "PHYSICAL", "PLAN"
    d.DoseGridScaling, d.PixelData = str(_SCALING), np.ascontiguousarray(pixels).tobytes()
    return d
