"""What `repr` tells of results: shapes, never what is in their arrays."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.exchange import Described, ShortRepr
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.registration.model import Transform

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
