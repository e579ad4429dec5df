"""Settings of the routes of the flow."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.fibers.flow.settings import FlowSettings


@dataclass(frozen=True, kw_only=True)
class RouteSettings(Settings):
    """Which routes are found between two regions."""

    flow: FlowSettings = part(
        "Flow",
        "How mass moves along fixels; weak ones count here: without them the middle of a bundle is found less well.",
        default=FlowSettings(least_amplitude=0.28),
    )
    max_routes: int = param(3, "Routes", "Maximum number of routes.", minimum=1, maximum=100)
    route_distance_mm: float = param(
        5.0,
        "Route distance",
        "Routes whose mean distance is below this are one; fixels so near to a route belong to it.",
        unit="mm",
        above=0.0,
        maximum=100.0,
        step=0.5,
    )
    least_share: float = param(
        0.01, "Least share", "Routes with a smaller share of the flow are left out.", minimum=0.0, maximum=1.0
    )
    turn_deg_per_mm: float = param(
        7.5, "Turn", "Turn at which a path costs twice as much.", unit="°/mm", above=0.0, maximum=180.0, advanced=True
    )
