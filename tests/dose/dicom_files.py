"""DICOM files made by the tests themselves, and those of a planning system."""

import functools

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

from napari_gpubio.dose import dvh
from napari_gpubio.dose.io import read_dvh_sequence, read_rtdose, read_rtstruct

FRAME = "1.2.3.4"


def save(dataset, path, kind, syntax=ExplicitVRLittleEndian, series=None, **changes):
    dataset.SOPClassUID, dataset.SOPInstanceUID = kind, generate_uid()
    dataset.PatientName = dataset.PatientID = "PHANTOM"
    dataset.StudyInstanceUID, dataset.SeriesInstanceUID = generate_uid(), series or generate_uid()
    change(dataset, changes)
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = kind
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.save_as(path, enforce_file_format=True)
    return path


def change(dataset, changes):
    """Set attributes of a dataset; None takes one away."""
    for keyword, value in changes.items():
        if value is None:
            del dataset[keyword]
        else:
            setattr(dataset, keyword, value)


def edited(path, change):
    """A DICOM file after a change to its dataset; returns the path."""
    dataset = pydicom.dcmread(path)
    change(dataset)
    dataset.save_as(path)
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
    change(d, changes)
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


def save_ct(folder, stored, *, cosines=(1, 0, 0, 0, 1, 0), step=3.0, each=lambda n: {}):
    """A CT series, a file for each slice of ``stored`` (slices, rows, columns), with pixels of 2.0 x 1.5 mm.

    ``each`` gives changes to slice n: attributes, ``offset`` (mm, added to its position) or ``remove``.
    """
    normal, files, series = np.cross(cosines[:3], cosines[3:]), [], generate_uid()
    for n, pixels in enumerate(stored):
        changes = dict(each(n))
        if changes.pop("remove", False):
            continue
        d = Dataset()
        d.Modality, d.FrameOfReferenceUID, d.SeriesDescription = "CT", FRAME, "THORAX"
        d.Rows, d.Columns = pixels.shape
        position = np.array([10.0, -20.0, 30.0]) + n * step * normal + changes.pop("offset", (0, 0, 0))
        d.ImagePositionPatient, d.ImageOrientationPatient = [round(float(v), 6) for v in position], list(cosines)
        d.PixelSpacing, d.SliceThickness = [1.5, 2.0], abs(step)
        d.SamplesPerPixel, d.PhotometricInterpretation, d.PixelRepresentation = 1, "MONOCHROME2", 1
        d.BitsAllocated = d.BitsStored = 16
        d.HighBit, d.RescaleSlope, d.RescaleIntercept = 15, 1, -1024
        d.PixelData = pixels.astype(np.int16).tobytes()
        file = save(d, folder / f"slice{(7 * n) % 11}.dcm", "1.2.840.10008.5.1.4.1.1.2", series=series, **changes)
        files.append(file)
    return files


def save_plan(path, references, groups):
    """An RTPLAN file of dose references (attributes), and fraction groups: fractions and doses of beams."""
    d = Dataset()
    d.Modality, d.RTPlanLabel = "RTPLAN", "PLAN"
    d.DoseReferenceSequence, d.FractionGroupSequence = [], []
    for attributes in references:
        item = Dataset()
        for keyword, value in attributes.items():
            setattr(item, keyword, value)
        d.DoseReferenceSequence.append(item)
    for fractions, beams in groups:
        group = Dataset()
        group.NumberOfFractionsPlanned, group.ReferencedBeamSequence = fractions, []
        for dose in beams:
            beam = Dataset()
            beam.BeamDose = str(dose)
            group.ReferencedBeamSequence.append(beam)
        d.FractionGroupSequence.append(group)
    return save(d, path, "1.2.840.10008.5.1.4.1.1.481.5")


@functools.cache
def counted(folder):
    """Our histograms of a planning system's files, the stored ones by name, and the structures."""
    structures = read_rtstruct(folder / "rtss.dcm")
    names = dict(zip(structures.numbers, (one.name for one in structures.structures), strict=True))
    stored = {one.name: one for one in read_dvh_sequence(folder / "rtdose.dcm", names)}
    return dvh(read_rtdose(folder / "rtdose.dcm"), structures.structures, device="cpu"), stored, structures
