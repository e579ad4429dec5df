"""What `repr` tells of results: shapes, never what is in their arrays."""

import collections.abc
import dataclasses
import importlib
import pkgutil
import typing
import weakref

import numpy as np
import pytest

import napari_gpubio
from napari_gpubio.core.exchange import Described
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.diffusion.noise.run import denoise_scan
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.registration.model import Transform

NAMES = {"EnginePanel": EnginePanel, "weakref": weakref}  # that modules have for their hints only
IDENTITY = "Transform(matrix=4 x 4 float64, complete=True)"


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted(Described):
    values: np.ndarray
    level: np.ndarray
    inside: Transform | None = None
    notes: tuple[str, ...] = ()
    names: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Transform(matrix=np.eye(4)), IDENTITY),
        (
            Slotted(np.zeros((9, 8), np.float32), np.array(2.5), Transform(matrix=np.eye(4)), names=tuple(range(9))),
            f"Slotted(values=9 x 8 float32, level=2.5, inside={IDENTITY}, names=<9 items>)",
        ),
        (
            Atlas(labels=np.ones((3, 2, 1), np.int32), affine=np.eye(4), names={1: "one"}),
            "Atlas(labels=3 x 2 x 1 int32, affine=4 x 4 float64, names={1: 'one'}, is_oriented=True)",
        ),
    ],
)
def test_tells_shapes_and_leaves_out_what_is_empty(value, text):
    assert repr(value) == text


def test_keeps_one_that_a_class_has_of_its_own():
    @dataclasses.dataclass
    class Own(ShortRepr):
        values: np.ndarray

        def __repr__(self):
            return "own"

    assert repr(Own(np.zeros(3))) == "own"


@dataclasses.dataclass(frozen=True)
class Outer(ShortRepr):
    inside: Slotted
    atlas: Atlas
    names: tuple[str, ...] = ("one", "two", "three")
    complete: bool = True


def test_of_parts_that_are_too_long_for_a_line_the_first_array_is_told():
    atlas = Atlas(labels=np.ones((3, 2, 1), np.int32), affine=np.eye(4), names={1: "one"})
    outer = Outer(Slotted(np.zeros((9, 8), np.float32), np.array(2.5)), atlas)
    assert repr(outer) == "Outer(inside=Slotted(9 x 8 float32), atlas=Atlas(3 x 2 x 1 int32), names=<3 items>)"
    stopped = dataclasses.replace(outer, complete=False, names=tuple(map(str, range(9))))
    assert repr(stopped).endswith("names=<9 items>, complete=False)"), "what is not as usual is told"


def test_a_denoised_scan_is_told_in_a_line():
    scan = load_brain_phantom()
    middle = tuple(slice(n // 2 - 3, n // 2 + 3) for n in scan.shape)
    found = repr(denoise_scan(dataclasses.replace(scan, data=scan.data[middle]), device="cpu"))
    inside = "denoised=DiffusionScan(6 x 6 x 6 x 25 float32), noise=6 x 6 x 6 float32, rank=6 x 6 x 6 uint16"
    assert found == f"DenoisedScan({inside}, ...)"


def holds_arrays(hint):
    """Whether a value of a type may be or have arrays; those that functions take or return are not held."""
    if typing.get_origin(hint) is collections.abc.Callable:
        return False
    return typing.get_origin(hint) is np.ndarray or hint is np.ndarray or any(map(holds_arrays, typing.get_args(hint)))


def told_by(one):
    """Types of the fields that a repr tells of."""
    hints = typing.get_type_hints(one, localns=NAMES)
    return [hints[each.name] for each in dataclasses.fields(one) if each.repr]


def dataclasses_of_the_package():
    for module in pkgutil.walk_packages(napari_gpubio.__path__, "napari_gpubio."):
        made = vars(importlib.import_module(module.name)).values()
        yield from (
            one
            for one in made
            if isinstance(one, type) and dataclasses.is_dataclass(one) and one.__module__ == module.name
        )


def test_no_dataclass_tells_what_is_in_its_arrays():
    """A repr that `dataclass` made calls itself safely, and is known by that."""
    telling = [
        f"{one.__module__}.{one.__name__}"
        for one in dataclasses_of_the_package()
        if hasattr(one.__repr__, "__wrapped__")
        and any(
            holds_arrays(typing.get_type_hints(one, localns=NAMES)[each.name])
            for each in dataclasses.fields(one)
            if each.repr
        )
    ]
    assert not telling, "derive them from ShortRepr"
