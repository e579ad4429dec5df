"""Fiber orientation distributions (FODs), responses and fixels; `napari_gpubio.tracts` has the verbs."""

from napari_gpubio.tracts.fods.axis_check import AxisCheck, check_axes, check_fods
from napari_gpubio.tracts.fods.harmonics import BASES
from napari_gpubio.tracts.fods.model import FixelField, FodField
from napari_gpubio.tracts.fods.response import Response, read_response, write_response
from napari_gpubio.tracts.fods.run import needed_memory
from napari_gpubio.tracts.fods.settings import (
    CsdSettings,
    HighestFa,
    MultiTissueSettings,
    PeakSettings,
    ThreeTissues,
    Tournier,
    TwoTissues,
)

__all__ = [
    "BASES",
    "AxisCheck",
    "CsdSettings",
    "FixelField",
    "FodField",
    "HighestFa",
    "MultiTissueSettings",
    "PeakSettings",
    "Response",
    "ThreeTissues",
    "Tournier",
    "TwoTissues",
    "check_axes",
    "check_fods",
    "needed_memory",
    "read_response",
    "write_response",
]
