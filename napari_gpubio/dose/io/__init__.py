"""Doses, structures, plans and histograms from files and to files; NIfTI is in `napari_gpubio.dose.io.nifti`."""

from napari_gpubio.dose.io.ct import CtImage, read_ct
from napari_gpubio.dose.io.dicom_rt import (
    DoseReference,
    Plan,
    RtDose,
    StructureSet,
    read_rtdose,
    read_rtdoses,
    read_rtplan,
    read_rtstruct,
)
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
    "write_curves_csv",
    "write_dvh_sequence",
    "write_json",
    "write_metrics_csv",
    "write_surfaces_csv",
]
