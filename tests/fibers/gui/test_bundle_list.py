"""The list of named seeds. No Qt, no napari."""

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.fibers.gui.bundles import BundleList
from napari_gpubio.gui.theme import REGIONS as COLORS

A, B, C = (0.0, -5.0, 22.0), (-22.0, -18.0, 12.0), (1.0, 2.0, 3.0)


def state(bundles):
    return [(b.name, b.center_mm, b.color) for b in bundles], bundles.current_index


def three():
    bundles = BundleList(COLORS)
    for center in (A, B, C):
        bundles.add(center)
    return bundles


def test_an_empty_list():
    bundles = BundleList(COLORS)
    assert len(bundles) == 0
    assert bundles.current is None
    assert bundles.current_index == -1
    for change in (bundles.remove, lambda: bundles.move(A), lambda: bundles.rename("x")):
        change()
    bundles.choose(0)
    assert state(bundles) == ([], -1)


def test_added_bundles_are_current_numbered_and_of_different_colors():
    bundles = three()
    assert [(b.name, b.center_mm) for b in bundles] == [("bundle 1", A), ("bundle 2", B), ("bundle 3", C)]
    assert [b.color for b in bundles] == list(COLORS[:3])
    assert bundles.current.name == "bundle 3"
    assert bundles.add(A, "callosum").name == "callosum"
    assert bundles.add(A).name == "bundle 4"
    bundles = three()
    bundles.choose(0)
    bundles.remove()  # which frees a color and a number
    bundle = bundles.add(A)
    assert (bundle.name, bundle.color) == ("bundle 4", COLORS[0])
    for _ in range(2 * len(COLORS)):
        bundles.add(A)
    assert {b.color for b in bundles} == set(COLORS)


def test_only_the_current_bundle_moves():
    bundles = three()
    for index in (-1, 3, 99):  # which are not there
        bundles.choose(index)
        assert bundles.current.name == "bundle 3"
    bundles.choose(1)
    bundles.move((7.0, 8.0, 9.0))
    assert [b.center_mm for b in bundles] == [A, (7.0, 8.0, 9.0), C]
    assert bundles.current.name == "bundle 2"


def test_renaming():
    bundles = three()
    bundles.rename("  left CST ")
    assert [b.name for b in bundles] == ["bundle 1", "bundle 2", "left CST"]
    for bad in ("", "   ", "bundle 1", " bundle 2 "):
        with pytest.raises(InvalidInput, match="cannot be the bundle's name"):
            bundles.rename(bad)
    assert bundles.current.name == "left CST"
    bundles.rename("left CST")  # its own name is not taken


@pytest.mark.parametrize(("index", "left", "current"), [(0, (B, C), B), (1, (A, C), C), (2, (A, B), B)])
def test_removing(index, left, current):
    bundles = three()
    bundles.choose(index)
    bundles.remove()
    assert tuple(b.center_mm for b in bundles) == left
    assert bundles.current.center_mm == current
    bundles.remove()
    bundles.remove()
    assert (bundles.current, len(bundles)) == (None, 0)
    assert bundles.add(B).name == "bundle 1"


def test_what_is_kept_comes_back():
    bundles = three()
    before, kept = state(bundles), bundles.kept
    bundles.move(A)
    bundles.remove()
    bundles.kept = kept
    assert state(bundles) == before
