"""DICOM files made by the tests themselves."""

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

FRAME = "1.2.3.4"


def save(dataset, path, kind, syntax=ExplicitVRLittleEndian):
    dataset.SOPClassUID, dataset.SOPInstanceUID = kind, generate_uid()
    dataset.PatientName = dataset.PatientID = "PHANTOM"
    dataset.StudyInstanceUID = dataset.SeriesInstanceUID = generate_uid()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = kind
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.save_as(path, enforce_file_format=True)
    return path


def dose_dataset(pixels, *, spacing=(2.0, 3.0, 4.0), first=(10.0, -20.0, 30.0), scale=0.01, **changes):
    """An RTDOSE dataset; pixels (frames, rows, columns), uint16 or uint32, spacing and first position along x, y, z."""
    d = Dataset()
    d.Modality, d.FrameOfReferenceUID = "RTDOSE", FRAME
    d.NumberOfFrames, d.Rows, d.Columns = pixels.shape
    d.ImagePositionPatient, d.ImageOrientationPatient = list(first), [1, 0, 0, 0, 1, 0]
    d.PixelSpacing = [spacing[1], spacing[0]]
    d.FrameIncrementPointer = (0x3004, 0x000C)
    d.GridFrameOffsetVector = [spacing[2] * n for n in range(len(pixels))]
    d.SamplesPerPixel, d.PhotometricInterpretation, d.PixelRepresentation = 1, "MONOCHROME2", 0
    d.BitsAllocated = d.BitsStored = 8 * pixels.itemsize
    d.HighBit = d.BitsStored - 1
    d.DoseUnits, d.DoseType, d.DoseSummationType, d.DoseGridScaling = "GY", "PHYSICAL", "PLAN", str(scale)
    d.PixelData = pixels.tobytes()
    for keyword, value in changes.items():
        if value is None:
            del d[keyword]
        else:
            setattr(d, keyword, value)
    return d


def save_dose(path, pixels, syntax=ExplicitVRLittleEndian, **more):
    return save(dose_dataset(pixels, **more), path, "1.2.840.10008.5.1.4.1.1.481.2", syntax)


def save_structures(path, structures):
    """An RTSTRUCT file; of each structure a name and its contours: a type and points (N, 3) in patient axes."""
    d = Dataset()
    d.Modality, d.StructureSetLabel = "RTSTRUCT", "TEST"
    d.StructureSetROISequence, d.ROIContourSequence = [], []
    for number, (name, contours) in enumerate(structures, 1):
        roi, drawn = Dataset(), Dataset()
        roi.ROINumber, roi.ROIName, roi.ReferencedFrameOfReferenceUID = number, name, FRAME
        drawn.ReferencedROINumber, drawn.ROIDisplayColor, drawn.ContourSequence = number, [255, 40 * number, 0], []
        for kind, points in contours:
            item = Dataset()
            item.ContourGeometricType, item.NumberOfContourPoints = kind, len(points)
            item.ContourData = [f"{value:.6g}" for value in np.ravel(points)]
            drawn.ContourSequence.append(item)
        d.StructureSetROISequence.append(roi)
        if contours:
            d.ROIContourSequence.append(drawn)
    return save(d, path, "1.2.840.10008.5.1.4.1.1.481.3")
