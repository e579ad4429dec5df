"""Fiber orientation distributions (FODs), responses and fixels; `napari_gpubio.diffusion` has the functions."""

from napari_gpubio.diffusion.fods.axis_check import AxisCheck, check_axes, check_fods
from napari_gpubio.diffusion.fods.harmonics import BASES
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.response import Response, read_response, write_response
from napari_gpubio.diffusion.fods.run import needed_memory
from napari_gpubio.diffusion.fods.settings import (
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
