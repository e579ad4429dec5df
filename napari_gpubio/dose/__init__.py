"""Dose-volume histograms of radiation and light dose, exact and fast.

From a dose and structures to numbers in two calls::

    result = dvh(dose, structures)
    parse_metric("D95%[Gy]").of(result["PTV"])
"""

from napari_gpubio.dose.io.ct import CtImage, read_ct
from napari_gpubio.dose.io.dicom_rt import DoseReference, Plan, StructureSet, read_rtdose, read_rtplan, read_rtstruct
from napari_gpubio.dose.io.dvh_files import (
    read_curves_csv,
    read_dvh_sequence,
    read_json,
    write_curves_csv,
    write_dvh_sequence,
    write_json,
    write_metrics_csv,
)
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.constraints import (
    Constraint,
    ConstraintResult,
    Difference,
    compare,
    judge,
    parse_constraint,
    parse_constraints,
)
from napari_gpubio.dose.metrics.curve import Differential, Dvh
from napari_gpubio.dose.metrics.metric import Metric, MetricValue, evaluate
from napari_gpubio.dose.metrics.metric_text import parse_metric, parse_metrics
from napari_gpubio.dose.metrics.models import (
    bed,
    eqd2,
    generalized_eud,
    gradient_index,
    homogeneity_index,
    lkb_ntcp,
    niemierko_tcp,
    paddick_index,
    rtog_index,
)
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.resident import DvhBand, ResidentDvh, dvh_band
from napari_gpubio.dose.run import DvhResult, dvh, dvh_steps, whole_dose, whole_dose_steps
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
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure, whole_grid
from napari_gpubio.dose.structures.raster import label_structures

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
