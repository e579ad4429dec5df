"""How two regions are connected: geodesics between points, routes between regions."""

from napari_gpubio.fibers.routes.between import geodesics_between
from napari_gpubio.fibers.routes.model import Routes, Search
from napari_gpubio.fibers.routes.run import connect, connect_steps
from napari_gpubio.fibers.routes.settings import ConnectSettings, LeaveOut, Solve

__all__ = [
    "ConnectSettings",
    "LeaveOut",
    "Routes",
    "Search",
    "Solve",
    "connect",
    "connect_steps",
    "geodesics_between",
]
