"""Values that no file holds, such as layers from Python or painted labels, as operations."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from napari_gpubio.core.operations.records import Held, Reading
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import Row
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import hints, part, record_fields
from napari_gpubio.core.space import checked_affine
from napari_gpubio.tracts.fods.model import FixelField, FodField
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.places import PLACED_IN, UNKNOWN_LENGTHS, UNKNOWN_PLACE, has_place
from napari_gpubio.tracts.regions import AnyRegion, Atlas, Region
from napari_gpubio.tracts.tractogram import Tractogram

NamedArrays = tuple[tuple[str, Held], ...]


@dataclass(frozen=True, kw_only=True)
class _HeldValue(Reading):
    """A value that no file holds; the fields of its class that are here are kept, arrays as copies."""

    value: ClassVar[Any]

    affine: tuple[Row, Row, Row, Row] = part("Affine", "Voxel to world, row by row.", unit="mm")
    name: str = param("", "Name", "As people know it.", compare=False)

    @classmethod
    def of(cls, value: Any, name: str = "", store: Store = STORE) -> Self:
        """Return the operation of a value as it is now."""
        fields = {one.name: getattr(value, one.name) for one in record_fields(cls) if hasattr(value, one.name)}
        kept = {field: _kept(one, store) for field, one in fields.items() if field != "affine"}
        return cls(**{**kept, "affine": value.affine, "name": name or kept.get("name", "")})

    def check(self) -> None:
        """Raise InvalidInput if the affine is none."""
        checked_affine(self.affine)

    def read(self, data: Any) -> Any:
        """Take it from where it is held."""
        values: dict[str, Any] = {"affine": np.array(self.affine)}
        for name, hint in hints(type(self)).items():
            own, there = getattr(self, name), getattr(data, name, None)
            if typing.get_args(hint)[-1:] == (Ellipsis,):
                values[name] = _named(own, there)
            elif name in self.value.__dataclass_fields__ and name not in values:
                values[name] = there if isinstance(own, Held) else own
        return self.value(**values)


def _kept(value: Any, store: Store) -> Any:
    """A value of a field as records hold it."""
    if isinstance(value, np.ndarray):
        return store.hold(value)
    return tuple((key, _kept(one, store)) for key, one in value.items()) if isinstance(value, Mapping) else value


def _named(own: Any, there: Any) -> Any:
    """Pairs of names and what is held under them as a mapping; ``there``: the arrays at the same places."""
    if isinstance(own, Held):
        return there
    if not isinstance(own, tuple):
        return own
    pairs = there or ((None, None),) * len(own)
    return {key: _named(one, pair and pair[1]) for (key, one), pair in zip(own, pairs, strict=True)}


@dataclass(frozen=True, kw_only=True)
class HeldScan(_HeldValue, verb="held-scan", makes={"scan": DiffusionScan}):
    """A diffusion scan that no file holds."""

    value = DiffusionScan
    data: Held = part("Signals", "Shape (X, Y, Z, N).")
    bvals: Held = part("b-values", "Shape (N,).", unit="s/mm²")
    directions: Held = part("Directions", "In world axes, shape (N, 3).")
    b0_limit: float = param(50.0, "b0 limit", "Volumes up to this b-value are not weighted.", unit="s/mm²", minimum=0.0)


@dataclass(frozen=True, kw_only=True)
class HeldTensors(_HeldValue, verb="held-tensors", makes={"field": TensorField}):
    """Tensors that no file holds."""

    value = TensorField
    tensors: Held = part("Tensors", "Shape (X, Y, Z, 6).", unit="mm²/s")
    mask: Held = part("Mask", "Voxels that hold one.")
    repaired: Held | None = part("Repaired", "Voxels whose tensor was repaired.", default=None)
    s0: Held | None = part("S0", "Fitted signal at b = 0.", default=None)


@dataclass(frozen=True, kw_only=True)
class HeldFods(_HeldValue, verb="held-fods", makes={"fods": FodField}):
    """FODs that no file holds."""

    value = FodField
    coefficients: Held = part("Coefficients", "Shape (X, Y, Z, N).")
    mask: Held = part("Mask", "Voxels that hold one.")
    tissues: NamedArrays = part("Tissues", "Densities by name.", default=())


@dataclass(frozen=True, kw_only=True)
class HeldFixels(_HeldValue, verb="held-fixels", makes={"fixels": FixelField}):
    """Fixels that no file holds."""

    value = FixelField
    counts: Held = part("Counts", "Fixels of each voxel, shape (X, Y, Z).")
    directions: Held = part("Directions", "In world axes, shape (F, 3).")
    amplitudes: Held = part("Amplitudes", "Shape (F,).")
    numbers: NamedArrays = part("Numbers", "Further ones of each fixel by name.", default=())


@dataclass(frozen=True, kw_only=True)
class HeldTractogram(_HeldValue, verb="held-tractogram", makes={"fibers": Tractogram}):
    """Fibers that no file holds."""

    value = Tractogram
    points: Held = part("Points", "Shape (P, 3).", unit="mm")
    offsets: Held = part("Offsets", "Where each fiber begins, shape (F + 1,).")
    shape: tuple[int, int, int] = part("Shape", "Dimensions of the volume that they belong to.")
    per_fiber: NamedArrays = part("Numbers of fibers", "By name.", default=())
    per_point: NamedArrays = part("Numbers of points", "By name.", default=())
    per_group: tuple[tuple[str, NamedArrays], ...] = part("Numbers of groups", "By group and name.", default=())
    is_oriented: bool = param(True, "Oriented", "Whether their place is known.")
    is_in_mm: bool = param(True, "In mm", "Whether their lengths are known.")
    was_placed: bool = param(False, "Placed", "Whether they were put voxel by voxel where they lie.")

    @classmethod
    def of(cls, value: Any, name: str = "", store: Store = STORE) -> Self:
        """Return the operation of fibers as they are now."""
        return dataclasses.replace(
            super().of(value, name, store),
            is_oriented=has_place(value),
            is_in_mm=not UNKNOWN_LENGTHS.items() <= value.parameters.items(),
            was_placed=PLACED_IN in value.parameters,
        )

    def read(self, data: Any) -> Tractogram:
        """Take them from where they are held."""
        parameters: dict[str, Any] = {} if self.is_oriented else dict(UNKNOWN_PLACE)
        parameters |= {} if self.is_in_mm else UNKNOWN_LENGTHS
        parameters |= {PLACED_IN: ([list(row) for row in self.affine], list(self.shape))} if self.was_placed else {}
        return dataclasses.replace(super().read(data), parameters=parameters)


@dataclass(frozen=True, kw_only=True)
class HeldRegion(_HeldValue, verb="held-region", makes={"region": AnyRegion}):
    """Voxels that no file holds, such as a label that was painted."""

    value = Region
    voxels: Held = part("Voxels", "Those that belong to it, shape (X, Y, Z).")
    is_oriented: bool = param(True, "Oriented", "Whether its place is known.")


@dataclass(frozen=True, kw_only=True)
class HeldAtlas(_HeldValue, verb="held-atlas", makes={"atlas": Atlas}):
    """Labels that no file holds, such as those that were painted."""

    value = Atlas
    labels: Held = part("Labels", "Whole numbers, shape (X, Y, Z).")
    names: tuple[tuple[int, str], ...] = part("Names", "Of labels.", default=())
    is_oriented: bool = param(True, "Oriented", "Whether its place is known.")
