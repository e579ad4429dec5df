"""Sources of MCX as ours: what they are, where they lie, and which are refused."""

import dataclasses
import math

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.mcx.jdata import encode_array
from napari_gpubio.light.source import KINDS, Source
from tests.light.io.mcx.samples import irradiance_at, with_source


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Source(kind="pencil")),
        ({"Type": "Pencil", "Dir": [0, 0, 1, 20]}, Source(kind="pencil")),
        ({"Type": "isotropic"}, Source(kind="isotropic")),
        ({"Type": "pencil", "Dir": [0, 0, 1, "_NaN_"]}, Source(kind="isotropic")),
        ({"Type": "cone", "Param1": [math.pi / 6]}, Source(kind="cone", half_angle_deg=30)),
        ({"Type": "cone", "Param1": [4, 0, 0, 0]}, Source(kind="cone", half_angle_deg=180)),
        ({"Type": "gaussian", "Param1": [3, 0, 0, 0]}, Source(kind="gaussian", radius_mm=1.5)),
        ({"Type": "disk", "Param1": [3, 0, 0, 0]}, Source(kind="disk", radius_mm=1.5)),
        ({"Type": "disk", "Param1": [3], "Dir": [0, 0, 1, "-_Inf_"]}, Source(kind="lambertian", radius_mm=1.5)),
    ],
)  # fmt: skip
def test_sources_at_a_point(read, fields, expected):
    root = with_source(**fields)
    root["Domain"]["LengthUnit"] = 0.5
    found = read(root).source
    expected = dataclasses.replace(expected, position_mm=(14.5, 14.5, 0.0))
    assert found.kind == expected.kind
    assert found.position_mm == expected.position_mm
    for size in KINDS[expected.kind]:
        assert getattr(found, size) == pytest.approx(getattr(expected, size))


@pytest.mark.parametrize("kind", ["slit", "line"])
def test_a_line_to_every_side(read, kind):
    found = read(with_source(Type=kind, Param1=[6, 8, 0, 0], Dir=[0, 0, 1, "_NaN_"])).source
    assert (found.kind, found.length_mm, found.position_mm) == ("line", 10.0, (32.0, 33.0, 0.0))
    np.testing.assert_allclose(found.frame()[2], [0.6, 0.8, 0])


PATTERN = {"Type": "pattern", "Pattern": {"Nx": 3, "Ny": 2, "Data": [0, 1, 2, 3, 4, 5]}}


@pytest.mark.parametrize(
    ("p1", "p2", "direction"),
    [
        ([30, 0, 0, 3], [0, 20, 0, 2], [0, 0, 1]),
        ([30, 0, 0, 3], [0, 20, 0, 2], [0, 0, -1]),
        ([0, 30, 0, 3], [-20, 0, 0, 2], [0, 0, 1]),
        ([0, 0, 30, 3], [0, 20, 0, 2], [-1, 0, 0]),
        ([18, 24, 0, 3], [16, -12, 0, 2], [0, 0, 1]),
    ],
)
def test_the_pattern_lies_where_mcx_has_it(read, p1, p2, direction):
    """MCX: pixel (ix, iy), number iy * Nx + ix, lies at Pos + Param1 (ix + 1/2) / Nx + Param2 (iy + 1/2) / Ny."""
    root = with_source(**PATTERN, Param1=p1, Param2=p2, Dir=direction)
    source = read(root).source
    assert (source.width_mm, source.height_mm) == (30, 20)
    for iy in range(2):
        for ix in range(3):
            where = np.array([29, 29, 0]) + np.array(p1[:3]) * (ix + 0.5) / 3 + np.array(p2[:3]) * (iy + 0.5) / 2
            assert irradiance_at(source, where) == iy * 3 + ix


def test_a_pattern_as_an_array(read):
    array = encode_array(np.arange(6, dtype=np.float32).reshape(3, 2))  # [x, y]
    root = with_source(Type="pattern", Pattern=array, Param1=[30, 0, 0, 3], Param2=[0, 20, 0, 2])
    found = read(root)
    np.testing.assert_array_equal(found.source.pattern, [[0, 2, 4], [1, 3, 5]])
    assert any("row-major" in note for note in found.notes)


def test_a_list_of_one_source_and_its_weight(read):
    found = read(with_source(Pos=[[29, 29, 0, 2]], Dir=[[0, 0, 1, 0]]))
    assert found.source.position_mm == (29, 29, 0)
    assert any("weight 2 is not used" in note for note in found.notes)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"Type": "fourier", "Param1": [9, 0, 0, 2]}, "type 'fourier' .a modulated rectangle.*does not have"),
        ({"Type": "hyperboloid"}, "a focused Gaussian beam"),
        ({"Type": "arcsine"}, "shines more to its poles"),
        ({"Type": "line", "Param1": [9, 0, 0]}, "across itself.*_NaN_ there"),
        ({"Type": "coneline"}, "type 'coneline', which this engine does not have"),
        ({"Type": "disk", "Param1": [3, 1]}, "a ring or a sector"),
        ({"Type": "disk", "Param1": [3], "Dir": [0, 0, 1, "_NaN_"]}, "launched every side"),
        ({"Type": "gaussian", "Param1": [3], "Dir": [0, 0, 1, 20]}, "launched focused"),
        ({"Type": "cone", "Param1": [0.3, 1]}, "even in solid angle"),
        ({"Type": "cone"}, "half_angle_deg is 0"),
        ({"Type": "gaussian", "Param1": [-1]}, "radius_mm is -1"),
        ({"Type": "planar", "Param1": [9, 0, 0], "Param2": [5, 5, 0]}, "right angles"),
        ({"Type": "planar", "Param1": [9, 0, 0], "Param2": [0, 5, 1]}, "right angles"),
        ({"Type": "planar", "Param1": [9, 0, 0]}, "is zero or too long"),
        ({"Type": "slit", "Dir": [0, 0, 1, "_NaN_"]}, "give the line as a vector"),
        (PATTERN | {"Param1": [9, 0, 0, 3], "Param2": [0, 9, 0, 3]}, "make them the same"),
        (PATTERN | {"Param1": [9, 0, 0, 3], "Param2": [0, 9, 0, 2], "SrcNum": 3}, "several patterns at once"),
        ({"Type": "pattern", "Param1": [9, 0, 0, 2], "Param2": [0, 9, 0, 2]}, "Nx is missing"),
        ({"Type": "pattern", "Param1": [9, 0, 0, 1], "Param2": [0, 9, 0, 1],
          "Pattern": {"Nx": 1, "Ny": 1, "Data": "p.bin"}}, "in the file 'p.bin'"),
        ({"Pos": [[1, 1, 1], [2, 2, 2]]}, "has 2 sources"),
        ({"Pos": [1, 1]}, "3 to 4 numbers"),
        ({"Dir": [0, 0, 0]}, "direction is .0, 0, 0."),
        ({"Dir": [0, 0, "_NaN_"]}, "three finite numbers"),
        ({"Type": 3}, "give a text"),
        ({"AngleInverseCDF": [0, 0.1, 1]}, "launch angles of its own"),
    ],
)  # fmt: skip
def test_sources_without_a_counterpart(read, fields, words):
    with pytest.raises(InvalidInput, match=words):
        read(with_source(**fields))
