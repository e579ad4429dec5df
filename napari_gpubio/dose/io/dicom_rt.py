"""Doses, prescriptions and structures from DICOM RTDOSE, RTPLAN and RTSTRUCT files."""

from napari_gpubio.dose.io.rtdose import RtDose, read_rtdose, read_rtdoses
from napari_gpubio.dose.io.rtplan import TARGET, DoseReference, Plan, read_rtplan
from napari_gpubio.dose.io.rtstruct import StructureSet, read_rtstruct

__all__ = [
    "TARGET",
    "DoseReference",
    "Plan",
    "RtDose",
    "StructureSet",
    "read_rtdose",
    "read_rtdoses",
    "read_rtplan",
    "read_rtstruct",
]
