"""Doses, structures, plans and histograms from files and to files; NIfTI is in `napari_gpubio.dose.io.nifti`."""

from napari_gpubio.dose.io.ct import CtImage, read_ct
from napari_gpubio.dose.io.dvh_files import (
    read_curves_csv,
    read_dvh_sequence,
    read_json,
    write_curves_csv,
    write_dvh_sequence,
    write_json,
    write_metrics_csv,
    write_surfaces_csv,
)
from napari_gpubio.dose.io.rtdose import RtDose, read_rtdose, read_rtdoses
from napari_gpubio.dose.io.rtplan import DoseReference, Plan, read_rtplan
from napari_gpubio.dose.io.rtstruct import StructureSet, read_rtstruct
from napari_gpubio.dose.io.seg import read_seg, write_seg

__all__ = [
    "CtImage",
    "DoseReference",
    "Plan",
    "RtDose",
    "StructureSet",
    "read_ct",
    "read_curves_csv",
    "read_dvh_sequence",
    "read_json",
    "read_rtdose",
    "read_rtdoses",
    "read_rtplan",
    "read_rtstruct",
    "read_seg",
    "write_curves_csv",
    "write_dvh_sequence",
    "write_json",
    "write_metrics_csv",
    "write_seg",
    "write_surfaces_csv",
]
