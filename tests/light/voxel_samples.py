"""Small domains for tests of the voxel engine, and what it means that two results are the same.

A grid position (mm from the outer corner of the first voxel) is the world position, unless an affine is given.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import KINDS, Source

CLEAR = Medium(label=1, n=1.0)
TISSUE = Medium(label=1, mua_per_mm=0.02, mus_per_mm=2.0, g=0.6, n=1.37)
OPEN, CYCLIC_SIDES = ("default",) * 6, ("cyclic",) * 4 + ("default",) * 2
MAX_Z = 4.0  # standard errors: one chance in 16 000


def source_of(kind: str, **wanted: Any) -> Source:
    """A source of a kind, with those of the wanted values that it has."""
    own = KINDS[kind].__dataclass_fields__
    return KINDS[kind](**{name: value for name, value in wanted.items() if name in own})


def grid_affine(voxel_mm: Any = 1.0) -> np.ndarray:
    """Affine with which grid positions are world positions."""
    sizes = np.broadcast_to(np.asarray(voxel_mm, float), 3)
    affine = np.diag([*sizes, 1.0])
    affine[:3, 3] = sizes / 2
    return affine


def turned_affine():
    """Rotated by 30 degrees about z, voxels of 1 x 2 x 3 mm, the second axis backwards: a left-handed volume."""
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    affine = np.eye(4)
    affine[:3, :3] = np.array([[c, s, 0], [s, -c, 0], [0, 0, 1]]) * [1.0, 2.0, 3.0]
    affine[:3, 3] = 10.0, -20.0, 30.0
    return affine


def make_domain(labels: Any, *media: Medium, voxel_mm: Any = 1.0, **more: Any) -> Domain:
    """A domain of labels, or of a shape full of label 1; `TISSUE` without media."""
    array = np.ones(labels, np.uint8) if isinstance(labels, tuple) else np.asarray(labels)
    affine = more.pop("affine", None)
    return Domain(
        labels=array, affine=grid_affine(voxel_mm) if affine is None else affine, media=media or (TISSUE,), **more
    )


def layers(shape: tuple[int, int, int], *media: Medium, **more: Any) -> Domain:
    """Layers across k, equally thick, with the labels 1, 2, ... of the media."""
    labels = np.repeat(np.arange(1, len(media) + 1), shape[2] // len(media))
    return make_domain(np.tile(labels, (*shape[:2], 1)), *media, **more)


def sliced(medium: Medium, count: int) -> tuple[Medium, ...]:
    """The same medium under the labels 1 to ``count``."""
    return tuple(dataclasses.replace(medium, label=label) for label in range(1, count + 1))


def tallies(result: LightResult) -> dict[str, np.ndarray]:
    """The integers of a result, and its detected photons, in an order that does not depend on the run's."""
    arrays = dict(result.state.to_arrays())
    order = np.argsort(arrays["detected_photons"])
    return arrays | {name: arrays[name][order] for name in ("detected_photons", "detected_numbers")}


def check_same_bits(found: LightResult, expected: LightResult) -> None:
    """Everything that was simulated is the same to the last bit."""
    mine, theirs = tallies(found), tallies(expected)
    assert set(mine) == set(theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(mine[name], array, err_msg=name)
    for name in ("gates", "gates_error", "fluence_error", "half_fluences", "escaped_weight"):
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        if b is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)
    for a, b in ((found.detected, expected.detected), (found, expected)):
        assert a.launched == b.launched
    for field in dataclasses.fields(expected.detected):
        np.testing.assert_array_equal(getattr(found.detected, field.name), getattr(expected.detected, field.name))
    assert repr(found.energy) == repr(expected.energy)
    assert repr(found.absorbed) == repr(expected.absorbed)
    assert found.complete == expected.complete


def fresnel(cosine: float, n1: float, n2: float) -> float:
    """Reflectance of unpolarized light, from the angles of incidence and refraction, in double precision."""
    if cosine > 1.0 - 1e-12:
        return ((n1 - n2) / (n1 + n2)) ** 2
    a = math.acos(cosine)
    if n1 / n2 * math.sin(a) >= 1.0:
        return 1.0
    b = math.asin(n1 / n2 * math.sin(a))
    return 0.5 * (math.sin(a - b) ** 2 / math.sin(a + b) ** 2 + math.tan(a - b) ** 2 / math.tan(a + b) ** 2)


def check_z(differences: Any, errors: Any, most: float = MAX_Z) -> None:
    """Differences are within so many of their standard errors."""
    z = np.asarray(differences, float) / np.asarray(errors, float)
    assert np.all(np.abs(z) < most), f"z-scores {z}"
