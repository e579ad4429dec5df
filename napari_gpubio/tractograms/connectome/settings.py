"""Settings of connectomes: of streamlines, and of geodesics."""

from dataclasses import dataclass
from typing import ClassVar

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part


@dataclass(frozen=True, kw_only=True)
class Radial(Settings):
    """The nearest labeled voxel within a radius of an end."""

    radius_mm: float = param(
        4.0,
        "Radius",
        "A labeled voxel's center must be nearer to the end than this.",
        unit="mm",
        above=0.0,
        maximum=50.0,
        step=0.5,
    )


@dataclass(frozen=True, kw_only=True)
class EndVoxels(Settings):
    """The voxel of an end point."""

    kind: ClassVar[str] = "end voxels"


@dataclass(frozen=True, kw_only=True)
class Backwards(Settings):
    """The first labeled voxel on the way back from an end."""

    backwards_mm: float = param(
        10.0, "Way back", "A labeled voxel is looked for this far; 0 = to the middle.", unit="mm", minimum=0.0,
        maximum=500.0,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AllVoxels(Settings):
    """Every region that a fiber passes."""

    kind: ClassVar[str] = "all voxels"


@dataclass(frozen=True, kw_only=True)
class ConnectomeSettings(Settings):
    """Which regions a fiber connects."""

    assignment: Radial | EndVoxels | Backwards | AllVoxels = part(
        "Ends belong to",
        "Radial: the nearest labeled voxel within a radius; end voxels: that of the end point; backwards: the first "
        "labeled voxel on the way back; all voxels: every region that a fiber passes.",
        default=Radial(),
    )
