"""Settings of connecting two regions."""

from dataclasses import dataclass
from typing import ClassVar

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part


@dataclass(frozen=True, kw_only=True)
class Solve(Settings):
    """Near misses are turned until they meet the target (two-point solver)."""

    near_mm: float = param(
        4.0,
        "Near miss",
        "Rays that come so near to the target are turned.",
        unit="mm",
        above=0.0,
        maximum=50.0,
    )
    per_seed: int = param(
        2,
        "Near misses per seed",
        "At most so many rays of a seed are turned, the nearest.",
        minimum=1,
        maximum=1000,
    )


@dataclass(frozen=True, kw_only=True)
class LeaveOut(Settings):
    """Near misses are left out."""

    kind: ClassVar[str] = "leave_out"


@dataclass(frozen=True, kw_only=True)
class ConnectSettings(Settings):
    """How two regions are connected, and which connections count as one route."""

    per_voxel: int = param(
        1, "Seeds per voxel", "Seed points in each voxel of the source; 1 is its center.", minimum=1, maximum=1000
    )
    near_misses: Solve | LeaveOut = part(
        "Near misses", "Rays that pass near the target are turned until they meet it (solve), or not.", default=Solve()
    )
    route_distance_mm: float = param(
        5.0,
        "Route distance",
        "Fibers whose mean distance is below this belong to one route.",
        unit="mm",
        above=0.0,
        maximum=100.0,
        step=0.5,
    )
    max_routes: int = param(
        50, "Routes listed", "The table has at most so many routes; the others are counted.", minimum=1, maximum=10_000
    )
