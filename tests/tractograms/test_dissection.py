"""Conditions over fibers, and a dissector that remembers."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.regions import Box, Region, Sphere
from napari_gpubio.tractograms import Tractogram, dissection
from napari_gpubio.tractograms.dissection import Dissector, connects, dissect, ends_in, number, through

SHAPE = (10, 10, 10)


def slab(axis, index, name="slab"):
    voxels = np.zeros(SHAPE, bool)
    voxels[tuple(index if a == axis else slice(None) for a in range(3))] = True
    return Region(name=name, voxels=voxels, affine=np.eye(4))


LOW, HIGH, MIDDLE = slab(0, 1, "low"), slab(0, 8, "high"), slab(0, 5, "middle")
BALL = Sphere(name="ball", center_mm=(5.0, 2.0, 3.0), radius_mm=1.5)
LINES = {  # along x at (y, z)
    "across": [(1, 2, 3), (8, 2, 3)],
    "back": [(8, 7, 7), (1, 7, 7)],
    "half": [(1, 2, 3), (4, 2, 3)],
    "inside": [(5, 1, 9), (5, 9, 9)],
    "loop": [(1, 5, 5), (7, 5, 5), (7, 6, 5), (1, 6, 5)],
}
FIBERS = Tractogram(
    points=np.concatenate([np.array(line, float) for line in LINES.values()]),
    offsets=np.concatenate([[0], np.cumsum([len(line) for line in LINES.values()])]),
    affine=np.eye(4),
    shape=SHAPE,
    per_fiber={"mean_fa": np.array([0.5, 0.4, 0.6, 0.2, 0.3])},
)
CASES = {
    "through": (through(MIDDLE), "across back inside loop"),
    "not": (~through(MIDDLE), "half"),
    "either end": (ends_in(LOW), "across back half loop"),
    "both ends": (ends_in(LOW, ends="both"), "loop"),
    "connects": (connects(HIGH, LOW), "across back"),
    "sphere": (through(BALL), "across half"),
    "box": (through(Box(name="b", low_mm=(6, 4, 4), high_mm=(9, 8, 8))), "back loop"),
    "and": (through(MIDDLE) & through(BALL), "across"),
    "or": (through(BALL) | ends_in(LOW, ends="both"), "across half loop"),
    "and not": (through(MIDDLE) & ~connects(LOW, HIGH), "inside loop"),
    "length": (number("length_mm", 6.9, 7.1), "across back"),
    "open range": (number("mean_fa", 0.4), "across back half"),
    "all": (~(through(BALL) | number("mean_fa", None, 0.35)) & through(MIDDLE), "back"),
}


def names(kept):
    return " ".join(name for name, is_kept in zip(LINES, kept, strict=True) if is_kept)


@pytest.mark.parametrize("case", CASES)
def test_conditions_choose_fibers(case):
    condition, expected = CASES[case]
    assert names(dissect(FIBERS, condition, device="cpu")) == expected


def test_only_regions_that_are_not_known_are_asked(monkeypatch):
    dissector = Dissector(FIBERS, device="cpu")
    run, asked = dissector._run, []
    for name in ("words", "solid"):
        real = getattr(run, name)
        monkeypatch.setattr(run, name, lambda *a, real=real, name=name: (asked.append(name), real(*a))[1])
    assert names(dissector.select(through(MIDDLE) & through(BALL))) == "across"
    assert sorted(asked) == ["solid", "words"]
    moved = Sphere(name="ball", center_mm=(5.0, 7.0, 7.0), radius_mm=1.5)
    again = Region(name="another name", voxels=MIDDLE.voxels.copy(), affine=np.eye(4))
    assert names(dissector.select(through(again) & through(moved))) == "back"
    assert names(dissector.select(~through(again))) == "half"
    assert sorted(asked) == ["solid", "solid", "words"]


def test_what_is_odd_about_regions_is_reported():
    dissector = Dissector(FIBERS, device="cpu")
    dissector.select(through(MIDDLE))
    assert dissector.notes == []
    same = Region(name="twin", voxels=MIDDLE.voxels, affine=MIDDLE.affine)
    far = Sphere(name="elsewhere", center_mm=(50.0, 5, 5), radius_mm=2.0)
    assert not dissector.select(through(MIDDLE) & through(same) & through(far)).any()
    assert len(dissector.notes) == 2
    assert "'twin'" in dissector.notes[0]
    assert "40 mm" in dissector.notes[1]


def test_a_condition_is_described_for_a_file():
    condition = (through(MIDDLE) & ~ends_in(LOW, ends="both")) | number("mean_fa", 0.3)
    assert condition.described() == {
        "any": [
            {"all": [{"through": "middle"}, {"not": {"both end in": "low"}}]},
            {"number": "mean_fa", "range": [0.3, None]},
        ]
    }
    assert connects(LOW, HIGH).described() == {"connects": ["low", "high"]}


def test_nonsense_is_refused():
    with pytest.raises(InvalidInput, match=r"mean_md.*mean_fa"):
        dissect(FIBERS, number("mean_md", 0, 1), device="cpu")
    with pytest.raises(InvalidInput, match="from 3 to 2"):
        number("length_mm", 3, 2)
    with pytest.raises(InvalidInput, match="'one'"):
        dissection.ends_in(LOW, ends="one")


def test_no_fibers_are_no_problem():
    nothing = FIBERS.select(np.zeros(len(FIBERS), bool))
    for condition, _ in CASES.values():
        assert dissect(nothing, condition, device="cpu").shape == (0,)


@pytest.mark.gpu
def test_a_gpu_gives_the_same():
    for condition, _ in CASES.values():
        np.testing.assert_array_equal(
            dissect(FIBERS, condition, device="cuda"), dissect(FIBERS, condition, device="cpu")
        )
