"""The flow of fibers: which regions a region reaches, how surely, and by which routes, through crossings."""

from napari_gpubio.fibers.flow.along import AlongSettings, fibers_along, fibers_along_steps
from napari_gpubio.fibers.flow.between import routes, routes_steps
from napari_gpubio.fibers.flow.model import Flow, FlowMatrices
from napari_gpubio.fibers.flow.repeats import flow_repeats, flow_repeats_steps
from napari_gpubio.fibers.flow.repeats_model import FlowRepeats
from napari_gpubio.fibers.flow.routes_model import FlowRoutes
from napari_gpubio.fibers.flow.run import flow, flow_steps
from napari_gpubio.fibers.flow.settings import FlowSettings, RouteSettings
from napari_gpubio.fibers.flow.source import SourceFlow, source_flow, source_flow_steps

__all__ = [
    "AlongSettings",
    "Flow",
    "FlowMatrices",
    "FlowRepeats",
    "FlowRoutes",
    "FlowSettings",
    "RouteSettings",
    "SourceFlow",
    "fibers_along",
    "fibers_along_steps",
    "flow",
    "flow_repeats",
    "flow_repeats_steps",
    "flow_steps",
    "routes",
    "routes_steps",
    "source_flow",
    "source_flow_steps",
]
