"""Histograms as curves; metrics, models and constraints; plans compared."""

from napari_gpubio.dose.metrics.constraints import (
    Constraint,
    ConstraintResult,
    Difference,
    compare,
    evaluate_constraints,
    parse_constraint,
    parse_constraints,
    read_constraints,
)
from napari_gpubio.dose.metrics.curve import Differential, Dvh, DvhResult
from napari_gpubio.dose.metrics.metric import Metric, MetricValue, evaluate_metric
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

__all__ = [
    "Constraint",
    "ConstraintResult",
    "Difference",
    "Differential",
    "Dvh",
    "DvhResult",
    "Metric",
    "MetricValue",
    "bed",
    "compare",
    "eqd2",
    "evaluate_constraints",
    "evaluate_metric",
    "generalized_eud",
    "gradient_index",
    "homogeneity_index",
    "lkb_ntcp",
    "niemierko_tcp",
    "paddick_index",
    "parse_constraint",
    "parse_constraints",
    "parse_metric",
    "parse_metrics",
    "read_constraints",
    "rtog_index",
]
