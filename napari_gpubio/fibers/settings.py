"""Settings of fiber tracking: a class for each method, with what matters to it and nothing else.

A class says what it is for (``use``), what it works in (``works_in``), and which directions it takes (``takes``), the
usual ones among them.
"""

import dataclasses
import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_unused, param
from napari_gpubio.core.settings import Settings, field_names, kind_of, part
from napari_gpubio.fibers.directions import CHOSEN, Cone, Directions, Fan, FromFod, Principal, Usual
from napari_gpubio.fibers.metrics import AnyMetric, Inverse

INTERPOLATIONS = ("smoothing", "interpolating", "linear")
INTEGRATORS = {"rk4": 4, "rk2": 2, "euler": 1}
_USUAL_STIFFNESS_VOXELS = 0.2


class Lengths(NamedTuple):
    """Lengths of a method in a volume, and the most steps of a ray, and points that it can keep beside the seed."""

    step_mm: float
    min_length_mm: float
    max_length_mm: float
    ray_steps: int
    ray_points: int


def _step(usual: float | None, where: str = "") -> Any:
    text = f"Length of an integration step{where}."
    return param(usual, "Step", text, unit="mm", above=0.0, maximum=10.0, step=0.1)


def _max_length(usual: float | None, where: str = "") -> Any:
    text = (
        f"Of the whole fiber{where}. Where both ways together are longer, each keeps half of this length, and what the "
        "other leaves of its half."
    )
    return param(usual, "Maximum length", text, unit="mm", above=0.0, maximum=100_000.0, step=10.0)


def _min_length(usual: float | None, where: str = "") -> Any:
    text = f"Shorter fibers are discarded{where}."
    return param(usual, "Minimum length", text, unit="mm", minimum=0.0, maximum=1000.0, step=5.0)


@dataclass(frozen=True, kw_only=True)
class TrackMethod(Settings):
    """Base of the methods: how a fiber is traced and where it stops. Lengths that are None depend on the voxels."""

    works_in: ClassVar[str]
    takes: ClassVar[tuple[type[Fan], ...]]
    usual_directions: ClassVar[Directions]
    usual_voxels: ClassVar[tuple[float, float, float]]  # step, shortest and longest fiber, in voxels
    slowest: ClassVar[int] = 1  # steps that one of full length may become
    draws: ClassVar[bool] = False  # directions of steps at random

    step_mm: float | None = _step(None, "; a share of the voxel by default")
    max_length_mm: float | None = _max_length(None, "; 100 voxels by default")
    min_length_mm: float | None = _min_length(None, "; 5 voxels by default")
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

    def lengths(self, voxel_sizes_mm: Iterable[float]) -> Lengths:
        """Lengths in a volume.

        A ray ends after ``max_steps``, or the longest length in steps; a method may take more of them where it is slow.

        Parameters
        ----------
        voxel_sizes_mm
            Edge lengths of a voxel.
        """
        given, voxel = (self.step_mm, self.min_length_mm, self.max_length_mm), mean_edge(voxel_sizes_mm)
        step, shortest, longest = (
            own if own is not None else share * voxel for own, share in zip(given, self.usual_voxels, strict=True)
        )
        steps = min(self.max_steps, int(self.slowest * longest / step) + 2)
        return Lengths(step, shortest, longest, steps, steps // self.points_every + 1)

    def directions(self, given: Directions | None = None, usual: Directions | None = None) -> Directions:
        """Return the directions of fibers: those that are given, or the usual ones.

        Parameters
        ----------
        given
            What was asked for.
        usual
            Those without, if the method takes such; else its own.

        Raises
        ------
        InvalidInput
            If the method does not take what is given.
        """
        if given is None or isinstance(given, Usual):
            found = usual if isinstance(usual, self.takes) else self.usual_directions
            return found if given is None else self._counted(found, given)
        if not isinstance(given, self.takes):
            known = " or ".join(repr(kind_of(one)) for one in self.takes)
            raise InvalidInput(f"the method {kind_of(self)!r} has no directions {kind_of(given)!r}; choose {known}")
        return given

    def _counted(self, found: Directions, given: Usual) -> Directions:
        if given.count is None:
            return dataclasses.replace(found, both_ways=given.both_ways)
        if isinstance(found, Principal):
            raise InvalidInput(f"count is {given.count}; {kind_of(self)} has one direction at each seed: leave it out")
        return dataclasses.replace(found, both_ways=given.both_ways, count=given.count)


def mean_edge(voxel_sizes_mm: Iterable[float]) -> float:
    """Edge in mm of the cube that is as large as a voxel."""
    return float(math.prod(voxel_sizes_mm)) ** (1 / 3)


@dataclass(frozen=True, kw_only=True)
class _Bent(Settings):
    """Fibers that may be too bent."""

    min_radius_mm: float = param(
        0.0,
        "Minimum radius",
        "Fibers end where their radius of curvature falls below this; 0 = never.",
        unit="mm",
        minimum=0.0,
        maximum=100.0,
        step=0.5,
    )


@dataclass(frozen=True, kw_only=True)
class _Geodesic(_Bent):
    """Geodesics, along which g(v, v) is constant."""

    max_drift: float = param(
        0.0,
        "Stop at drift",
        "Fibers end where g(v, v), which is constant along a geodesic, has changed by this fraction; 0 = never.",
        minimum=0.0,
        maximum=100.0,
        step=0.01,
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class TensorMethod(_Bent, TrackMethod):
    """Base of the methods in tensors."""

    works_in: ClassVar[str] = "tensors"
    takes: ClassVar[tuple[type[Fan], ...]] = CHOSEN
    usual_directions: ClassVar[Directions] = Cone()
    usual_voxels: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 0.0)  # lengths have numbers of their own

    step_mm: float = _step(0.5)
    max_length_mm: float = _max_length(250.0)
    min_length_mm: float = _min_length(10.0)
    fa_stop: float = param(
        0.2,
        "Stop below FA",
        "Fibers end where the fractional anisotropy falls below this; 0 = never.",
        minimum=0.0,
        maximum=1.0,
        step=0.05,
    )
    integrator: str = param(
        "rk4",
        "Integrator",
        "Runge-Kutta of fourth or second order, or Euler.",
        choices=tuple(INTEGRATORS),
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class TensorGeodesic(_Geodesic, TensorMethod):
    """Base of the geodesics in tensors."""

    metric: AnyMetric = part(
        "Metric",
        "Riemannian metric of the geodesics: D⁻¹, sharpened D⁻ᵖ, the adjugate, or adaptive: D⁻¹ times a factor, "
        "computed for the whole volume, that makes geodesics follow the bends of fibers instead of cutting them short.",
        default=Inverse(),
    )
    eigenvalue_floor_mm2_per_s: float = param(
        1e-4,
        "Eigenvalue floor",
        "Smaller eigenvalues are raised to this before the metric is made.",
        unit="mm²/s",
        above=0.0,
        maximum=1e-2,
        advanced=True,
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
    )


@dataclass(frozen=True, kw_only=True)
class Hamiltonian(TensorGeodesic):
    """Geodesics in tensors, in Hamiltonian form."""

    use: ClassVar[str] = "a first look at once; one direction a voxel, so it strays in crossings"

    interpolation: str = param(
        "smoothing",
        "Interpolation",
        "Cubic B-spline that smooths slightly and keeps tensors positive (for data), or that interpolates "
        "(for exact fields), or trilinear.",
        choices=INTERPOLATIONS,
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class VanAart2011(TensorGeodesic):
    """Geodesics in tensors exactly as van Aart et al. 2011; steps are equal in the curve's parameter."""

    use: ClassVar[str] = "the published geodesics, to compare with; one direction a voxel"

    slowest: ClassVar[int] = 4  # steps get shorter where diffusion is slower
    texture: bool = param(
        False,
        "Hardware texture",
        "CUDA only: interpolate in the texture unit (9-bit weights).",
        advanced=True,
    )

    def check(self) -> None:
        """Raise InvalidInput if a texture shall hold double precision."""
        if self.texture and self.precision == "double":
            raise InvalidInput("texture is True and precision is 'double'; textures hold single precision only")


@dataclass(frozen=True, kw_only=True)
class EuDX(TensorMethod):
    """Classic streamlines in tensors, along the principal direction."""

    use: ClassVar[str] = "classic streamlines, for bundles that none crosses; one direction a voxel"

    takes: ClassVar[tuple[type[Fan], ...]] = (Principal,)
    usual_directions: ClassVar[Directions] = Principal()
    corner_angle_deg: float = param(
        90.0,
        "Neighbors within",
        "Of the eight voxels around a point, those count whose principal direction is at most this far from the "
        "fiber's, and whose FA is above the stop; 90 = all. DIPY takes 60.",
        unit="°",
        above=0.0,
        maximum=90.0,
        step=5.0,
        advanced=True,
    )
    corner_weight: float = param(
        0.0,
        "Weight of neighbors",
        "Fibers end where the voxels that count have less than this share of the interpolation's weight; 0 = never. "
        "DIPY takes 0.5.",
        minimum=0.0,
        maximum=1.0,
        step=0.1,
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class AmplitudeMethod(TrackMethod):
    """Base of the methods in FODs and fixels."""

    works_in: ClassVar[str] = "FODs"
    takes: ClassVar[tuple[type[Fan], ...]] = (FromFod, *CHOSEN)
    usual_directions: ClassVar[Directions] = FromFod(count=100)
    usual_voxels: ClassVar[tuple[float, float, float]] = (0.25, 5, 100)
    fod_stop: float = param(
        0.1,
        "Stop below FOD",
        "Fibers end where the amplitude along them falls below this.",
        minimum=0.0,
        maximum=1e6,
        step=0.05,
    )
    random_seed: int = param(
        0,
        "Random seed",
        "Of directions that are drawn; the same gives the same fibers.",
        minimum=0,
        maximum=2**53,
        advanced=True,
    )

    def directions(self, given: Directions | None = None, usual: Directions | None = None) -> Directions:
        """Return the directions of fibers; InvalidInput also if there is a random seed, and nothing to draw."""
        found = super().directions(given, usual)
        if not self.draws_in(found):
            why = f"{kind_of(self)} draws nothing at random from directions {kind_of(found)!r}"
            check_unused(self, ("random_seed",), why)
        return found

    def draws_in(self, directions: Directions) -> bool:
        """Whether random numbers are drawn, at seeds or later."""
        return self.draws or isinstance(directions, FromFod)


def _max_angle(usual: float) -> Any:
    return param(
        usual, "Maximum angle", "Largest turn within a step.", unit="°", above=0.0, maximum=90.0, step=5.0,
        advanced=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StreamlineMethod(AmplitudeMethod):
    """Base of the streamlines in FODs, whose usual lengths are MRtrix's."""

    takes: ClassVar[tuple[type[Fan], ...]] = (FromFod, Principal)
    usual_voxels: ClassVar[tuple[float, float, float]] = (0.1, 5, 100)
    max_angle_deg: float = _max_angle(60.0)
    trials: int = param(
        1000,
        "Trials",
        "Directions that are tried in a step, and at a seed, before a fiber ends.",
        minimum=1,
        maximum=1_000_000,
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class IFOD2(StreamlineMethod):
    """Probabilistic streamlines of second order in FODs (Tournier et al. 2010)."""

    use: ClassVar[str] = "the usual choice through crossings: fibers spread as far as FODs leave it open"

    draws: ClassVar[bool] = True
    usual_voxels: ClassVar[tuple[float, float, float]] = (0.5, 5, 100)
    max_angle_deg: float = _max_angle(45.0)


@dataclass(frozen=True, kw_only=True)
class IFOD1(StreamlineMethod):
    """Probabilistic streamlines of first order in FODs."""

    use: ClassVar[str] = "as ifod2, in short straight steps"

    draws: ClassVar[bool] = True
    max_angle_deg: float = _max_angle(15.0)


@dataclass(frozen=True, kw_only=True)
class SDStream(StreamlineMethod):
    """Deterministic streamlines in FODs, which follow the nearest peak (Tournier et al. 2012)."""

    use: ClassVar[str] = "a clean picture of a bundle through crossings: no chance, most fibers valid"

    kind: ClassVar[str] = "sd_stream"


@dataclass(frozen=True, kw_only=True)
class LiftedGeodesic(_Geodesic, AmplitudeMethod):
    """Geodesics in the space of positions and directions, in FODs.

    They are for what lies near: they leave bundles (on a brain after 27 mm, where SD_STREAM follows them for 92), so
    that whole bundles are better made by streamlines.
    """

    kind: ClassVar[str] = "lifted_geodesic"
    use: ClassVar[str] = "geodesics through crossings near a seed; they leave long bundles early"
    slowest: ClassVar[int] = 4  # a turn is part of a step's length, too
    cost: str = param(
        "guiding",
        "Cost",
        "With the FOD f, guiding: the cost is δ + (f / f_max)ᵖ, and fibers hold geodesics as glass fibers hold light. "
        "Shortest: it is the inverse; shortest paths follow fibers, but a geodesic that is sent off beside one turns "
        "away from it.",
        choices=("guiding", "shortest"),
        advanced=True,
    )
    delta: float = param(
        0.5, "Base δ", "The cost is δ + (f / f_max)ᵖ, or its inverse, with the FOD f.", above=0.0, maximum=10.0,
        step=0.01, advanced=True,
    )  # fmt: skip
    power: int = param(1, "FOD power p", "Exponent of the FOD in the cost.", minimum=1, maximum=3, advanced=True)
    stiffness_per_mm: float | None = param(
        None,
        "Stiffness ξ",
        "The cost of a millimeter over that of a turn by a radian; the smaller, the straighter fibers are. 0.2 over "
        "the edge of a voxel by default: its inverse is near the tightest radius that geodesics follow.",
        unit="1/mm",
        above=0.0,
        maximum=100.0,
        step=0.01,
        advanced=True,
    )
    epsilon: float = param(
        0.3, "Slip ε", "The smaller, the less fibers may go beside their direction.", above=0.0, maximum=1.0, step=0.05,
        advanced=True,
    )  # fmt: skip
    lmax: int = param(
        6, "Maximum order (lmax)", "Higher orders of the FODs are left out.", minimum=0, maximum=16, step=2,
        advanced=True,
    )  # fmt: skip

    def stiffness(self, voxel_sizes_mm: Iterable[float]) -> float:
        """Return the stiffness in 1/mm, in a volume of such voxels."""
        given = self.stiffness_per_mm
        return _USUAL_STIFFNESS_VOXELS / mean_edge(voxel_sizes_mm) if given is None else given


@dataclass(frozen=True, kw_only=True)
class FixelGeodesic(_Geodesic, AmplitudeMethod):
    """Geodesics in the metric of the fixels that are followed."""

    kind: ClassVar[str] = "fixel_geodesic"
    use: ClassVar[str] = "geodesics through crossings, along the peaks of FODs; most fibers valid"
    works_in: ClassVar[str] = "fixels"
    usual_directions: ClassVar[Directions] = Cone(count=100, half_angle_deg=10.0)
    anisotropy: float = param(
        1.7 / 0.3, "Anisotropy", "Diffusivity along a fiber over that across it.", minimum=1.0, maximum=1000.0,
        step=1.0, advanced=True,
    )  # fmt: skip
    power: float = param(
        3.0, "Power p", "Exponent of the metric D⁻ᵖ of a fixel; the larger, the closer geodesics keep to fibers.",
        above=0.0, maximum=6.0, step=0.5, advanced=True,
    )  # fmt: skip
    angle_deg: float = param(
        35.0,
        "Fixels within",
        "Of the voxels around a point, those count that have a fixel at most this far from the fibers that are "
        "followed.",
        unit="°",
        above=0.0,
        maximum=90.0,
        step=5.0,
        advanced=True,
    )
    weight: float = param(
        0.5, "Weight of fixels",
        "Fibers end where the voxels that count have less than this share of the weight.",
        minimum=0.0, maximum=0.95, step=0.1, advanced=True,
    )  # fmt: skip
    smoothing_voxels: float = param(
        1.0,
        "Smooth fixels by",
        "Directions are averaged with the nearest ones of the voxels around, weighted by a Gaussian of this standard "
        "deviation; 0 = not. Noise in them bends geodesics.",
        unit="voxels",
        minimum=0.0,
        maximum=5.0,
        step=0.5,
        advanced=True,
    )


InTensors = Hamiltonian | VanAart2011 | EuDX
InFods = IFOD2 | IFOD1 | SDStream | LiftedGeodesic
InFixels = FixelGeodesic
Method = InTensors | InFods | InFixels
METHODS: Mapping[str, type[TrackMethod]] = {kind_of(one): one for one in typing.get_args(Method)}
Chosen = TypeVar("Chosen", bound=TrackMethod)


def as_method(cls: type[Chosen], method: TrackMethod) -> Chosen:
    """Return another method with what a method has that is not the default, as far as the other has it, too."""
    values = {field.name: (getattr(method, field.name), field.default) for field in dataclasses.fields(method)}
    known = field_names(cls)
    return cls(**{name: value for name, (value, usual) in values.items() if value != usual and name in known})
