"""Values that no file holds, such as layers from Python or painted labels, as operations."""

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
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, Region

NamedArrays = tuple[tuple[str, Held], ...]


@dataclass(frozen=True, kw_only=True)
class HeldValue(Reading):
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
class HeldScan(HeldValue, verb="held-scan", makes={"scan": DiffusionScan}):
    """A diffusion scan that no file holds."""

    value = DiffusionScan
    data: Held = part("Signals", "Shape (X, Y, Z, N).")
    bvals: Held = part("b-values", "Shape (N,).", unit="s/mm²")
    directions: Held = part("Directions", "In world axes, shape (N, 3).")
    b0_limit: float = param(50.0, "b0 limit", "Volumes up to this b-value are not weighted.", unit="s/mm²", minimum=0.0)


@dataclass(frozen=True, kw_only=True)
class HeldTensors(HeldValue, verb="held-tensors", makes={"field": TensorField}):
    """Tensors that no file holds."""

    value = TensorField
    tensors: Held = part("Tensors", "Shape (X, Y, Z, 6).", unit="mm²/s")
    mask: Held = part("Mask", "Voxels that hold one.")
    repaired: Held | None = part("Repaired", "Voxels whose tensor was repaired.", default=None)
    s0: Held | None = part("S0", "Fitted signal at b = 0.", default=None)


@dataclass(frozen=True, kw_only=True)
class HeldFods(HeldValue, verb="held-fods", makes={"fods": FodField}):
    """FODs that no file holds."""

    value = FodField
    coefficients: Held = part("Coefficients", "Shape (X, Y, Z, N).")
    mask: Held = part("Mask", "Voxels that hold one.")
    tissues: NamedArrays = part("Tissues", "Densities by name.", default=())


@dataclass(frozen=True, kw_only=True)
class HeldFixels(HeldValue, verb="held-fixels", makes={"fixels": FixelField}):
    """Fixels that no file holds."""

    value = FixelField
    counts: Held = part("Counts", "Fixels of each voxel, shape (X, Y, Z).")
    directions: Held = part("Directions", "In world axes, shape (F, 3).")
    amplitudes: Held = part("Amplitudes", "Shape (F,).")
    numbers: NamedArrays = part("Numbers", "Further ones of each fixel by name.", default=())


@dataclass(frozen=True, kw_only=True)
class HeldRegion(HeldValue, verb="held-region", makes={"region": AnyRegion}):
    """Voxels that no file holds, such as a label that was painted."""

    value = Region
    voxels: Held = part("Voxels", "Those that belong to it, shape (X, Y, Z).")
    is_oriented: bool = param(True, "Oriented", "Whether its place is known.")


@dataclass(frozen=True, kw_only=True)
class HeldAtlas(HeldValue, verb="held-atlas", makes={"atlas": Atlas}):
    """Labels that no file holds, such as those that were painted."""

    value = Atlas
    labels: Held = part("Labels", "Whole numbers, shape (X, Y, Z).")
    names: tuple[tuple[int, str], ...] = part("Names", "Of labels.", default=())
    is_oriented: bool = param(True, "Oriented", "Whether its place is known.")
