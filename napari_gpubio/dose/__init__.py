"""Dose-volume histograms of radiation and light dose, exact and fast.

From a dose and structures to numbers in two calls::

    result = dvh(dose, structures)
    parse_metric("D95%[Gy]").of(result["PTV"])
"""

from napari_gpubio.dose.band import DvhBand, dvh_band
from napari_gpubio.dose.curves.biology import bed, eqd2, generalised_eud, lkb_ntcp
from napari_gpubio.dose.curves.constraints import Constraint, Verdict, judge, parse_constraint, parse_constraints
from napari_gpubio.dose.curves.dvh import Differential, Dvh
from napari_gpubio.dose.curves.metric import Metric, parse_metric
from napari_gpubio.dose.curves.plan import Difference, compare, homogeneity_index, paddick_index
from napari_gpubio.dose.io.dvh_sequence import read_dvh_sequence, write_dvh_sequence
from napari_gpubio.dose.io.rtdose import read_rtdose
from napari_gpubio.dose.io.rtstruct import StructureSet, read_rtstruct
from napari_gpubio.dose.io.table import write_curves_csv, write_json, write_metrics_csv
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.run import DvhResult, dvh, dvh_steps
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.contours import ContourStructure, contour_structure
from napari_gpubio.dose.structures.labels import LabelStructures, whole_grid
from napari_gpubio.dose.structures.points import PointStructure

__all__ = [
    "Constraint",
    "ContourStructure",
    "Difference",
    "Differential",
    "Dose",
    "Dvh",
    "DvhBand",
    "DvhResult",
    "DvhSettings",
    "LabelStructures",
    "LiveDvh",
    "Metric",
    "PointStructure",
    "StructureSet",
    "Verdict",
    "bed",
    "compare",
    "contour_structure",
    "dvh",
    "dvh_band",
    "dvh_steps",
    "eqd2",
    "generalised_eud",
    "homogeneity_index",
    "judge",
    "lkb_ntcp",
    "paddick_index",
    "parse_constraint",
    "parse_constraints",
    "parse_metric",
    "read_dvh_sequence",
    "read_rtdose",
    "read_rtstruct",
    "whole_grid",
    "write_curves_csv",
    "write_dvh_sequence",
    "write_json",
    "write_metrics_csv",
]
