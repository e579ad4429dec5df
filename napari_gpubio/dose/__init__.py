"""Dose-volume histograms of radiation and light dose, exact and fast.

From a dose and structures to numbers in two calls::

    result = dvh(dose, structures)
    metrics.parse_metric("D95%[Gy]").of(result["PTV"])

Files are in `napari_gpubio.dose.io`, metrics, models and constraints in `napari_gpubio.dose.metrics`, and what makes
structures of others in `napari_gpubio.dose.structures`.
"""

from napari_gpubio.dose import io, metrics, structures
from napari_gpubio.dose.bands import DvhBand, dvh_bands
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.metrics.surface import SurfaceHistogram
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.plans import difference_of_doses, sum_of_doses
from napari_gpubio.dose.resident import ResidentDvh
from napari_gpubio.dose.run import dvh, dvh_steps, needed_memory, whole_dose, whole_dose_steps
from napari_gpubio.dose.settings import ByAccuracy, BySpacing, DvhSettings, SurfaceSettings
from napari_gpubio.dose.structures.contours import ContourStructure, contour_structure
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure
from napari_gpubio.dose.surfaces import surface_histograms

__all__ = [
    "ByAccuracy",
    "BySpacing",
    "ContourStructure",
    "Dose",
    "Dvh",
    "DvhBand",
    "DvhResult",
    "DvhSettings",
    "LabelStructures",
    "LiveDvh",
    "PointStructure",
    "ResidentDvh",
    "SurfaceHistogram",
    "SurfaceSettings",
    "contour_structure",
    "difference_of_doses",
    "dvh",
    "dvh_bands",
    "dvh_steps",
    "io",
    "metrics",
    "needed_memory",
    "structures",
    "sum_of_doses",
    "surface_histograms",
    "whole_dose",
    "whole_dose_steps",
]
