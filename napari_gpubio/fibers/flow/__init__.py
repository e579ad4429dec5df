"""The flow of fibers: which regions a region reaches, how surely, and by which routes, through crossings."""

from napari_gpubio.fibers.flow.model import Flow, FlowMatrices
from napari_gpubio.fibers.flow.run import flow, flow_steps
from napari_gpubio.fibers.flow.settings import FlowSettings

__all__ = ["Flow", "FlowMatrices", "FlowSettings", "flow", "flow_steps"]
