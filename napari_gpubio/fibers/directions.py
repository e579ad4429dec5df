"""In which directions fibers leave each seed point: a class for each fan."""

from dataclasses import dataclass
from typing import Any, ClassVar

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings


def _count(usual: int | None = 1000) -> Any:
    text = "Directions launched from each seed point."
    return param(usual, "Fibers per seed", text, minimum=1, maximum=1_000_000, step=100)


@dataclass(frozen=True, kw_only=True)
class Fan(Settings):
    """Base of the directions in which fibers leave each seed point."""

    both_ways: bool = param(True, "Both ways", "Track each fiber in both directions from the seed.")

    @property
    def per_seed(self) -> int:
        """Fibers that leave one seed point."""
        return getattr(self, "count", None) or 1


@dataclass(frozen=True, kw_only=True)
class Usual(Fan):
    """Those that the method has by default, perhaps of another number.

    The verbs ``track-fods`` and ``track-fixels`` take a single one where seeds are many, balls, a region or the white
    matter, and no number is given: one drawn at random, or the principal one.
    """

    count: int | None = _count(None)


@dataclass(frozen=True, kw_only=True)
class Cone(Fan):
    """Evenly spread in a cone around the principal direction."""

    count: int = _count()
    half_angle_deg: float = param(
        30.0, "Cone half angle", "Angle between the axis of the cone and its edge.", unit="°", above=0.0, maximum=90.0,
        step=5.0,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Isotropic(Fan):
    """Evenly spread over the sphere."""

    count: int = _count()


@dataclass(frozen=True, kw_only=True)
class Principal(Fan):
    """The principal direction alone, of FODs that of the largest peak, of fixels that of the largest."""


@dataclass(frozen=True, kw_only=True)
class FromFod(Fan):
    """Drawn at random from the FOD, or the fixels, at the seed."""

    kind: ClassVar[str] = "fod"
    count: int = _count()


ChosenDirections = Usual | Cone | Isotropic | Principal
Directions = ChosenDirections | FromFod
CHOSEN = (Cone, Isotropic, Principal)  # of which none is drawn
