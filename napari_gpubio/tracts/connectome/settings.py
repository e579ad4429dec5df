"""Settings of connectomes: of streamlines, and of geodesics."""

from dataclasses import dataclass

from napari_gpubio.core.parameters import check_params, param

ASSIGNMENTS = ("radial", "end voxels", "backwards", "all voxels")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectomeSettings:
    """Which regions a fiber connects."""

    assignment: str = param(
        "radial",
        "Ends belong to",
        "Radial: the nearest labeled voxel within a radius; end voxels: that of the end point; backwards: the first "
        "labeled voxel on the way back; all voxels: every region that a fiber passes.",
        choices=ASSIGNMENTS,
    )
    radius_mm: float = param(
        4.0,
        "Radius",
        "A labeled voxel's center must be nearer to the end than this.",
        unit="mm",
        above=0.0,
        maximum=50.0,
        step=0.5,
        where={"assignment": ("radial",)},
    )
    backwards_mm: float = param(
        10.0, "Way back", "A labeled voxel is looked for this far; 0 = to the middle.", unit="mm", minimum=0.0,
        maximum=500.0, where={"assignment": ("backwards",)},
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_params(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeodesicSettings:
    """How densely geodesics are shot from each region, and how many of them are kept."""

    seeds_per_region: int = param(
        500,
        "Seeds per region",
        "At most so many voxels of a region are seeds, evenly chosen.",
        minimum=1,
        maximum=1_000_000,
        step=100,
    )
    best_per_pair: int = param(
        10,
        "Keep the best",
        "From each region, so many fibers to each other region are kept, those of highest alignment × FA; all count.",
        unit="fibers",
        minimum=0,
        maximum=100_000,
    )

    def __post_init__(self) -> None:
        check_params(self)
