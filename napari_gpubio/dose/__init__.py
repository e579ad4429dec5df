"""Dose-volume histograms of radiation and light dose, exact and fast.

From a dose and structures to numbers in two calls::

    result = dvh(dose, structures)
    parse_metric("D95%[Gy]").of(result["PTV"])
"""

from napari_gpubio.dose.band import DvhBand, dvh_band
from napari_gpubio.dose.io.ct import CtImage, read_ct
from napari_gpubio.dose.io.dvh_sequence import read_dvh_sequence, write_dvh_sequence
from napari_gpubio.dose.io.rtdose import read_rtdose
from napari_gpubio.dose.io.rtplan import DoseReference, Plan, read_rtplan
from napari_gpubio.dose.io.rtstruct import StructureSet, read_rtstruct
from napari_gpubio.dose.io.table import read_curves_csv, read_json, write_curves_csv, write_json, write_metrics_csv
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.answer import MetricValue, evaluate
from napari_gpubio.dose.metrics.biology import bed, eqd2, generalized_eud, lkb_ntcp, niemierko_tcp
from napari_gpubio.dose.metrics.constraints import (
    Constraint,
    ConstraintResult,
    judge,
    parse_constraint,
    parse_constraints,
)
from napari_gpubio.dose.metrics.dvh import Differential, Dvh
from napari_gpubio.dose.metrics.indices import gradient_index, homogeneity_index, paddick_index, rtog_index
from napari_gpubio.dose.metrics.metric import Metric
from napari_gpubio.dose.metrics.metric_text import parse_metric, parse_metrics
from napari_gpubio.dose.metrics.plan import Difference, compare
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.resident import ResidentDvh
from napari_gpubio.dose.run import DvhResult, dvh, dvh_steps
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.algebra import (
    Region,
    difference,
    intersection,
    label_region,
    margin,
    regions_on_grid,
    union,
)
from napari_gpubio.dose.structures.contours import ContourStructure, contour_structure
from napari_gpubio.dose.structures.labels import LabelStructures, whole_grid
from napari_gpubio.dose.structures.points import PointStructure
from napari_gpubio.dose.structures.raster import label_structures
from napari_gpubio.dose.whole import whole_dose, whole_dose_steps

__all__ = [
    "Constraint",
    "ConstraintResult",
    "ContourStructure",
    "CtImage",
    "Difference",
    "Differential",
    "Dose",
    "DoseReference",
    "Dvh",
    "DvhBand",
    "DvhResult",
    "DvhSettings",
    "LabelStructures",
    "LiveDvh",
    "Metric",
    "MetricValue",
    "Plan",
    "PointStructure",
    "Region",
    "ResidentDvh",
    "StructureSet",
    "bed",
    "compare",
    "contour_structure",
    "difference",
    "dvh",
    "dvh_band",
    "dvh_steps",
    "eqd2",
    "evaluate",
    "generalized_eud",
    "gradient_index",
    "homogeneity_index",
    "intersection",
    "judge",
    "label_region",
    "label_structures",
    "lkb_ntcp",
    "margin",
    "niemierko_tcp",
    "paddick_index",
    "parse_constraint",
    "parse_constraints",
    "parse_metric",
    "parse_metrics",
    "read_ct",
    "read_curves_csv",
    "read_dvh_sequence",
    "read_json",
    "read_rtdose",
    "read_rtplan",
    "read_rtstruct",
    "regions_on_grid",
    "rtog_index",
    "union",
    "whole_dose",
    "whole_dose_steps",
    "whole_grid",
    "write_curves_csv",
    "write_dvh_sequence",
    "write_json",
    "write_metrics_csv",
]
