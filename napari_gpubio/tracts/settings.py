"""Settings of fiber tracking, and the Riemannian metrics to choose from."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param, replaced

Array = Any  # numpy or cupy
Metric = Callable[[Array, float], Array]
METRICS: dict[str, Metric] = {}


def _metric(function: Metric) -> Metric:
    METRICS[function.__name__] = function
    return function


@_metric
def inverse(eigenvalues: Array, power: float) -> Array:  # noqa: ARG001 - every metric has the same signature
    """g = D^-1, the metric of van Aart et al. 2011: W = D."""
    return eigenvalues


@_metric
def sharpened(eigenvalues: Array, power: float) -> Array:
    """g = D^-p: W = D^p. The larger p, the closer geodesics keep to the principal direction."""
    return eigenvalues**power


@_metric
def adjugate(eigenvalues: Array, power: float) -> Array:  # noqa: ARG001
    """g = det(D) D^-1 (Fuster et al. 2016): W = D / det D. Fluid becomes expensive."""
    return eigenvalues / eigenvalues.prod(axis=-1)[..., None]


@_metric
def adaptive(eigenvalues: Array, power: float) -> Array:  # noqa: ARG001
    """g = e^alpha D^-1 (Hao et al. 2014): W = e^-alpha D, where the factor, which is not of one voxel, comes later."""
    return eigenvalues


TENSOR_METHODS = ("hamiltonian", "vanaart2011", "eudx")
FOD_METHODS = ("ifod2", "ifod1", "sd_stream")
LIFTED_METHODS = ("lifted_geodesic",)  # in FODs too
FIXEL_METHODS = ("fixel_geodesic",)
GEODESIC_METHODS = ("hamiltonian", "vanaart2011")  # in tensors
METHODS = TENSOR_METHODS + FOD_METHODS + LIFTED_METHODS + FIXEL_METHODS
USUAL_ANGLE_DEG = {"ifod2": 45.0, "ifod1": 15.0, "sd_stream": 60.0}  # largest turn within a step
_USUAL_STEP_VOXELS = {"ifod2": 0.5, "ifod1": 0.1, "sd_stream": 0.1, "lifted_geodesic": 0.25, "fixel_geodesic": 0.25}
_USUAL_STIFFNESS_VOXELS = 0.2  # its inverse is near the tightest radius that geodesics follow
_USUAL_LENGTH_VOXELS = 5, 100
_IN_TENSORS = {"method": TENSOR_METHODS}
_IN_FODS_OR_FIXELS = {"method": FOD_METHODS + LIFTED_METHODS + FIXEL_METHODS}
_DRAWN, _EUDX = {"method": FOD_METHODS}, {"method": ("eudx",)}
_GEODESICS = {"method": GEODESIC_METHODS}
_FIXELS, _LIFTED = {"method": FIXEL_METHODS}, {"method": LIFTED_METHODS}
INTERPOLATIONS = ("smoothing", "interpolating", "linear")
INTEGRATORS = {"rk4": 4, "rk2": 2, "euler": 1}


class StopReason(IntEnum):
    """Why a ray ended."""

    VOLUME = 1
    MASK = 2
    FA = 3
    STEPS = 4
    LENGTH = 5
    CURVATURE = 6
    DRIFT = 7
    INVALID = 8
    TARGET = 9
    FOD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Directions:
    """In which directions fibers leave each seed point."""

    kind: str = param(
        "cone",
        "Directions",
        "A cone around the principal direction, uniform on the sphere, or the principal direction alone, which is all "
        "that streamlines (EuDX) have; in FODs drawn from the FOD, or its largest peak alone.",
        choices=("cone", "sphere", "principal", "fod"),
    )
    count: int = param(
        1000,
        "Fibers per seed",
        "Directions launched from each seed point.",
        minimum=1,
        maximum=1_000_000,
        step=100,
        where={"kind": ("cone", "sphere", "fod")},
    )
    cone_half_angle_deg: float = param(
        30.0,
        "Cone half angle",
        "Angle between the axis of the cone and its edge.",
        unit="°",
        above=0.0,
        maximum=90.0,
        step=5.0,
        where={"kind": ("cone",)},
    )
    both_ways: bool = param(True, "Both ways", "Track each fiber in both directions from the seed.")

    def __post_init__(self) -> None:
        if self.kind == "principal" and self.count == 1:  # which is what it has
            object.__setattr__(self, "count", Directions.__dataclass_fields__["count"].default)
        check_params(self)

    @property
    def per_seed(self) -> int:
        """Fibers that leave one seed point."""
        return 1 if self.kind == "principal" else self.count

    def of_method(self, method: str, usual: "Directions | None" = None) -> "Directions":
        """Return the directions that a method takes: EuDX has one at each seed, and in FODs they are drawn from those.

        Parameters
        ----------
        method
            One of `METHODS`.
        usual
            What is launched where nothing is chosen, and becomes what the method takes; by default ``Directions()``.

        Raises
        ------
        InvalidInput
            If others are asked for: more than one of EuDX, a cone or a sphere of its own in FODs.
        """
        kinds = {"eudx": ("principal",)} | dict.fromkeys(FOD_METHODS, ("fod", "principal"))
        if method not in kinds or self.kind in kinds[method]:
            return self
        usual = dataclasses.replace(usual or Directions(), both_ways=self.both_ways)
        if self != (dataclasses.replace(usual, count=self.count) if method in FOD_METHODS else usual):
            raise InvalidInput(
                f"directions are of the kind {self.kind!r} ({self.count} of them), which has no effect with the method "
                f"{method!r}; choose {' or '.join(map(repr, kinds[method]))}"
            )
        return replaced(self, kind=kinds[method][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSettings:
    """How a fiber is traced and where it stops."""

    method: str = param(
        "hamiltonian",
        "Method",
        "In tensors: geodesics in Hamiltonian form, geodesics exactly as van Aart et al. 2011, or classic streamlines "
        "(EuDX). In FODs: probabilistic streamlines of second order (iFOD2, Tournier et al. 2010) or first order "
        "(iFOD1), deterministic ones, which follow the nearest peak (SD_STREAM), or geodesics in the space of "
        "positions and directions, which are for what lies near: they leave bundles (on a brain after 27 mm, where "
        "SD_STREAM follows them for 92), so that whole bundles are better made by streamlines. In fixels: geodesics in "
        "the metric of the fixels that are followed.",
        choices=METHODS,
    )
    metric: str = param(
        "inverse",
        "Metric",
        "Riemannian metric of the geodesics: D⁻¹, sharpened D⁻ᵖ, the adjugate, or adaptive: D⁻¹ times a factor, "
        "computed for the whole volume, that makes geodesics follow the bends of fibers instead of cutting them short.",
        choices=tuple(METRICS),
        where=_GEODESICS,
    )
    sharpening: float = param(
        2.0,
        "Sharpening p",
        "Exponent of the sharpened metric.",
        above=0.0,
        maximum=6.0,
        step=0.5,
        where={"metric": ("sharpened",)},
    )
    step_mm: float = param(0.5, "Step", "Length of an integration step.", unit="mm", above=0.0, maximum=10.0, step=0.1)
    fa_stop: float = param(
        0.2,
        "Stop below FA",
        "Fibers end where the fractional anisotropy falls below this; 0 = never.",
        minimum=0.0,
        maximum=1.0,
        step=0.05,
        where=_IN_TENSORS,
    )
    fod_stop: float = param(
        0.1,
        "Stop below FOD",
        "In FODs and fixels: fibers end where the amplitude along them falls below this.",
        minimum=0.0,
        maximum=1e6,
        step=0.05,
        where=_IN_FODS_OR_FIXELS,
    )
    max_length_mm: float = param(
        250.0,
        "Maximum length",
        "Of the whole fiber. Where both ways together are longer, each keeps half of this length, and what the other "
        "leaves of its half.",
        unit="mm",
        above=0.0,
        maximum=100_000.0,
        step=10.0,
    )
    min_length_mm: float = param(
        10.0, "Minimum length", "Shorter fibers are discarded.", unit="mm", minimum=0.0, maximum=1000.0, step=5.0
    )
    min_radius_mm: float = param(
        0.0,
        "Minimum radius",
        "Fibers end where their radius of curvature falls below this; 0 = never.",
        unit="mm",
        minimum=0.0,
        maximum=100.0,
        step=0.5,
        where={"method": TENSOR_METHODS + LIFTED_METHODS + FIXEL_METHODS},
    )
    max_angle_deg: float = param(
        0.0,
        "Maximum angle",
        "In FODs: largest turn within a step; 0 = the usual one of the method: 45° for iFOD2, 15° for iFOD1, 60° for "
        "SD_STREAM.",
        unit="°",
        minimum=0.0,
        maximum=90.0,
        step=5.0,
        advanced=True,
        where=_DRAWN,
    )
    random_seed: int = param(
        0,
        "Random seed",
        "Directions from FODs or fixels: seed of the random numbers; the same gives the same fibers.",
        minimum=0,
        maximum=2**53,
        advanced=True,
        where=_IN_FODS_OR_FIXELS,
    )
    trials: int = param(
        1000,
        "Trials",
        "In FODs: directions that are tried in a step, and at a seed, before a fiber ends.",
        minimum=1,
        maximum=1_000_000,
        advanced=True,
        where=_DRAWN,
    )
    corner_angle_deg: float = param(
        90.0,
        "Neighbors within",
        "EuDX only: of the eight voxels around a point, those count whose principal direction is at most this far from "
        "the fiber's, and whose FA is above the stop; 90 = all. DIPY takes 60.",
        unit="°",
        above=0.0,
        maximum=90.0,
        step=5.0,
        advanced=True,
        where=_EUDX,
    )
    corner_weight: float = param(
        0.0,
        "Weight of neighbors",
        "EuDX only: fibers end where the voxels that count have less than this share of the interpolation's weight; "
        "0 = never. DIPY takes 0.5.",
        minimum=0.0,
        maximum=1.0,
        step=0.1,
        advanced=True,
        where=_EUDX,
    )
    fixel_anisotropy: float = param(
        1.7 / 0.3, "Fixel anisotropy",
        "Geodesics in fixels: diffusivity along a fiber over that across it.",
        minimum=1.0, maximum=1000.0, step=1.0, advanced=True, where=_FIXELS,
    )  # fmt: skip
    fixel_power: float = param(
        3.0, "Fixel power p",
        "Geodesics in fixels: exponent of the metric D⁻ᵖ of a fixel; the larger, the closer geodesics keep to fibers.",
        above=0.0, maximum=6.0, step=0.5, advanced=True, where=_FIXELS,
    )  # fmt: skip
    fixel_angle_deg: float = param(
        35.0, "Fixels within",
        "Geodesics in fixels: of the voxels around a point, those count that have a fixel at most this far from the "
        "fibers that are followed.",
        unit="°", above=0.0, maximum=90.0, step=5.0, advanced=True, where=_FIXELS,
    )  # fmt: skip
    fixel_weight: float = param(
        0.5, "Weight of fixels",
        "Geodesics in fixels: fibers end where the voxels that count have less than this share of the weight.",
        minimum=0.0, maximum=0.95, step=0.1, advanced=True, where=_FIXELS,
    )  # fmt: skip
    fixel_smoothing_voxels: float = param(
        1.0, "Smooth fixels by",
        "Geodesics in fixels: directions are averaged with the nearest ones of the voxels around, weighted by a "
        "Gaussian of this standard deviation; 0 = not. Noise in them bends geodesics.",
        unit="voxels", minimum=0.0, maximum=5.0, step=0.5, advanced=True, where=_FIXELS,
    )  # fmt: skip
    lifted_cost: str = param(
        "guiding", "Cost",
        "Geodesics of positions and directions, with the FOD f. Guiding: the cost is δ + (f / f_max)ᵖ, and fibers hold "
        "geodesics as glass fibers hold light. Shortest: it is the inverse; shortest paths follow fibers, but a "
        "geodesic that is sent off beside one turns away from it.",
        choices=("guiding", "shortest"), advanced=True, where=_LIFTED,
    )  # fmt: skip
    lifted_delta: float = param(
        0.5, "Base δ",
        "Geodesics of positions and directions: the cost is δ + (f / f_max)ᵖ, or its inverse, with the FOD f.",
        above=0.0, maximum=10.0, step=0.01, advanced=True, where=_LIFTED,
    )  # fmt: skip
    lifted_power: int = param(
        1, "FOD power p",
        "Geodesics of positions and directions: exponent of the FOD in the cost.",
        minimum=1, maximum=3, advanced=True, where=_LIFTED,
    )  # fmt: skip
    lifted_stiffness_per_mm: float = param(
        0.2, "Stiffness ξ",
        "Geodesics of positions and directions: the cost of a millimeter over that of a turn by a radian; the smaller, "
        "the straighter fibers are.",
        unit="1/mm", above=0.0, maximum=100.0, step=0.01, advanced=True, where=_LIFTED,
    )  # fmt: skip
    lifted_epsilon: float = param(
        0.3, "Slip ε",
        "Geodesics of positions and directions: the smaller, the less fibers may go beside their direction.",
        above=0.0, maximum=1.0, step=0.05, advanced=True, where=_LIFTED,
    )  # fmt: skip
    lifted_lmax: int = param(
        6, "Maximum order (lmax)",
        "Geodesics of positions and directions: higher orders of the FODs are left out.",
        minimum=0, maximum=16, step=2, advanced=True, where=_LIFTED,
    )  # fmt: skip
    max_drift: float = param(
        0.0,
        "Stop at drift",
        "Fibers end where g(v, v), which is constant along a geodesic, has changed by this fraction; 0 = never.",
        minimum=0.0,
        maximum=100.0,
        step=0.01,
        advanced=True,
        where={"method": GEODESIC_METHODS + LIFTED_METHODS + FIXEL_METHODS},
    )
    integrator: str = param(
        "rk4",
        "Integrator",
        "Runge-Kutta of fourth or second order, or Euler.",
        choices=tuple(INTEGRATORS),
        advanced=True,
        where=_IN_TENSORS,
    )
    interpolation: str = param(
        "smoothing",
        "Interpolation",
        "Cubic B-spline that smooths slightly and keeps tensors positive (for data), or that interpolates "
        "(for exact fields), or trilinear. Hamiltonian method only.",
        choices=INTERPOLATIONS,
        advanced=True,
        where={"method": ("hamiltonian",)},
    )
    eigenvalue_floor_mm2_per_s: float = param(
        1e-4,
        "Eigenvalue floor",
        "Smaller eigenvalues are raised to this before the metric is made.",
        unit="mm²/s",
        above=0.0,
        maximum=1e-2,
        advanced=True,
        where=_GEODESICS,
    )
    eigenvalue_ceiling_mm2_per_s: float = param(
        5e-3,
        "Eigenvalue ceiling",
        "Larger eigenvalues, which no water at body temperature has, are lowered to this before the metric is made.",
        unit="mm²/s",
        above=0.0,
        maximum=1e6,
        step=1e-3,
        advanced=True,
        where=_GEODESICS,
    )
    max_steps: int = param(
        10_000, "Maximum steps", "Rays end after this many steps.", minimum=1, maximum=1_000_000, advanced=True
    )
    points_every: int = param(
        1,
        "Keep every",
        "Keep every nth point of a fiber; its end points are always kept.",
        unit="steps",
        minimum=1,
        maximum=1000,
        advanced=True,
    )
    precision: str = param(
        "single", "Precision", "Floating-point precision of the tracing.", choices=("single", "double"), advanced=True
    )
    texture: bool = param(
        False,
        "Hardware texture",
        "CUDA, vanaart2011 only: interpolate in the texture unit (9-bit weights).",
        advanced=True,
        where={"method": ("vanaart2011",)},
    )

    @staticmethod
    def usual(method: str, voxel_sizes_mm: Any) -> "TrackSettings":
        """Settings for a method in FODs or fixels: step, shortest and longest fiber by the mean voxel size.

        Those of streamlines are MRtrix's.

        Parameters
        ----------
        method
            One of `FOD_METHODS`, `LIFTED_METHODS` or `FIXEL_METHODS`.
        voxel_sizes_mm
            Edge lengths of a voxel.

        Raises
        ------
        InvalidInput
            If the method is another one.
        """
        if method not in _USUAL_STEP_VOXELS:
            known = ", ".join(map(repr, _USUAL_STEP_VOXELS))
            raise InvalidInput(f"method is {method!r}; in FODs and fixels choose one of {known}")
        voxel = float(math.prod(voxel_sizes_mm)) ** (1 / 3)
        shortest, longest = _USUAL_LENGTH_VOXELS
        more = {"lifted_stiffness_per_mm": _USUAL_STIFFNESS_VOXELS / voxel} if method in LIFTED_METHODS else {}
        return TrackSettings(
            method=method,
            step_mm=_USUAL_STEP_VOXELS[method] * voxel,
            min_length_mm=shortest * voxel,
            max_length_mm=longest * voxel,
            **more,
        )

    def __post_init__(self) -> None:
        check_params(self)
        if self.texture and self.precision == "double":
            raise InvalidInput("texture is True and precision is 'double'; textures hold single precision only")

    @property
    def largest_angle_deg(self) -> float:
        """Largest turn within a step of a method in FODs."""
        return self.max_angle_deg or USUAL_ANGLE_DEG[self.method]

    @property
    def ray_steps(self) -> int:
        """Steps after which a ray ends at the latest: ``max_steps``, or the longest length in steps.

        The steps of ``vanaart2011`` are equal in the curve's parameter and get shorter where diffusion is slower; those
        of lifted geodesics have a turn in their length, too.
        """
        slower = 4 if self.method in ("vanaart2011", *LIFTED_METHODS) else 1
        return min(self.max_steps, int(slower * self.max_length_mm / self.step_mm) + 2)

    @property
    def ray_points(self) -> int:
        """Most points that one ray can keep, the seed not counted."""
        return self.ray_steps // self.points_every + 1
