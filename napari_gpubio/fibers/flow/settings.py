"""Settings of the flow of fibers, and of its routes."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part


@dataclass(frozen=True, kw_only=True)
class FlowSettings(Settings):
    """How mass moves along fixels."""

    step_voxels: float = param(
        4.0,
        "Step",
        "Way that mass follows the fixels before it is spread over the voxels around; short steps blur more.",
        unit="voxels",
        minimum=0.5,
        maximum=20.0,
        step=0.5,
    )
    angle_deg: float = param(
        45.0, "Angle", "Fixels at a larger angle are not followed.", unit="°", above=0.0, maximum=90.0
    )
    spread_deg: float = param(
        12.0,
        "Spread",
        "Standard deviation of the angle by which mass is shared among the fixels of a voxel.",
        unit="°",
        above=0.0,
        maximum=90.0,
    )
    least_amplitude: float = param(
        0.45,
        "Least amplitude",
        "Fixels below this share of the reference (the median over voxels of the largest amplitude) are left out.",
        minimum=0.0,
        maximum=10.0,
        step=0.05,
    )
    least_mass: float = param(
        1e-6,
        "Least mass",
        "Masses below this share of all that leaves a region are dropped; 1e-5 takes a fifth of the time.",
        minimum=0.0,
        maximum=0.01,
        advanced=True,
    )
    max_length_mm: float = param(
        400.0, "Maximum length", "Mass goes no farther than this.", unit="mm", above=0.0, maximum=10_000.0
    )


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
