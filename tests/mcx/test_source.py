"""Sources of MCX as ours: what they are, where they lie, and which are refused."""

import dataclasses
import math

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.jdata import encode_array
from napari_gpubio.optics.sources import (
    Cone,
    Disk,
    EvenCone,
    Gaussian,
    Hyperboloid,
    Isotropic,
    Lambertian,
    Pencil,
    ZGaussian,
)
from tests.mcx.samples import irradiance_at, with_source


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Pencil()),
        ({"Type": "Pencil", "Dir": [0, 0, 1, 20]}, Pencil()),
        ({"Type": "isotropic"}, Isotropic()),
        ({"Type": "pencil", "Dir": [0, 0, 1, "_NaN_"]}, Isotropic()),
        ({"Type": "cone", "Param1": [math.pi / 6]}, Cone(half_angle_deg=30)),
        ({"Type": "cone", "Param1": [4, 0, 0, 0]}, Cone(half_angle_deg=180)),
        ({"Type": "cone", "Param1": [math.pi / 6, 1]}, EvenCone(half_angle_deg=30)),
        ({"Type": "arcsine"}, EvenCone(half_angle_deg=180)),
        ({"Type": "zgaussian", "Param1": [math.pi / 18]}, ZGaussian(angle_sd_deg=10)),
        ({"Type": "hyperboloid", "Param1": [3, 20, 8]},
         Hyperboloid(radius_mm=1.5, focus_mm=10, rayleigh_mm=4)),
        ({"Type": "gaussian", "Param1": [3], "Dir": [0, 0, 1, -20]},
         Gaussian(radius_mm=1.5, focus_mm=-10)),
        ({"Type": "gaussian", "Param1": [3, math.pi], "Dir": [0, 0, 1, 9]},
         Gaussian(radius_mm=1.5 * math.sqrt(2), focus_mm=4.5)),
        ({"Type": "disk", "Param1": [3, 1]}, Disk(radius_mm=1.5, inner_radius_mm=0.5)),
        ({"Type": "disk", "Param1": [3], "Dir": [0, 0, 1, 4]}, Disk(radius_mm=1.5, focus_mm=2)),
        ({"Type": "ring", "Param1": [3, 1]}, Disk(radius_mm=1.5, inner_radius_mm=0.5)),
        ({"Type": "gaussian", "Param1": [3, 0, 0, 0]}, Gaussian(radius_mm=1.5)),
        ({"Type": "disk", "Param1": [3, 0, 0, 0]}, Disk(radius_mm=1.5)),
        ({"Type": "disk", "Param1": [3], "Dir": [0, 0, 1, "-_Inf_"]}, Lambertian(radius_mm=1.5)),
    ],
)  # fmt: skip
def test_sources_at_a_point(read, fields, expected):
    root = with_source(**fields)
    root["Domain"]["LengthUnit"] = 0.5
    found = read(root).source
    expected = dataclasses.replace(expected, position_mm=(14.5, 14.5, 0.0))
    assert found.kind == expected.kind
    assert found.position_mm == expected.position_mm
    for size in [f.name for f in dataclasses.fields(expected) if isinstance(f.default, (int, float))]:
        assert getattr(found, size) == pytest.approx(getattr(expected, size))


def test_a_line_to_every_side(read):
    found = read(with_source(Type="slit", Param1=[6, 8, 0, 0], Dir=[0, 0, 1, "_NaN_"])).source
    assert (found.kind, found.length_mm, found.position_mm) == ("line", 10.0, (32.0, 33.0, 0.0))
    np.testing.assert_allclose(found.frame()[2], [0.6, 0.8, 0])


@pytest.mark.parametrize("focus", [0, 20, "_NaN_"])  # which MCX does not look at
def test_a_line_that_shines_across_itself(read, focus):
    found = read(with_source(Type="line", Param1=[6, 8, 0, 0], Dir=[0, 0, 1, focus])).source
    assert (found.kind, found.length_mm, found.position_mm) == ("radial_line", 10.0, (32.0, 33.0, 0.0))
    assert found.sector_deg is None


def test_a_line_that_shines_into_a_wedge(read):
    """MCX takes the part of Dir across the line, and turns it by up to Param2[0] to both sides."""
    found = read(with_source(Type="line", Param1=[6, 8, 0, 0], Param2=[math.pi / 6], Dir=[0.6, 0, 0.8])).source
    across = np.array([0.6, 0, 0.8]) - 0.36 * np.array([0.6, 0.8, 0])
    np.testing.assert_allclose(found.frame()[0], across / np.linalg.norm(across), atol=1e-9)
    assert found.sector_deg == pytest.approx((-30, 30))


@pytest.mark.parametrize(("direction", "zero", "quarter"), [
    ((0, 0, 1), (1, 0, 0), (0, 1, 0)),
    ((0, 0, -1), (1, 0, 0), (0, 1, 0)),
    ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    ((0, 3, 4), (0, 0.8, -0.6), (-1, 0, 0)),
])  # fmt: skip
def test_the_sector_lies_where_mcx_has_it(read, direction, zero, quarter):
    """MCX turns (cos a, sin a, 0) by the direction's polar angle about y and then by its azimuth about z."""
    root = with_source(Type="ring", Param1=[3, 1, math.pi / 6, math.pi / 2], Dir=list(direction))
    source = read(root).source
    middle = math.radians(sum(source.sector_deg) / 2)
    u, v, _ = source.frame()
    expected = math.cos(math.pi / 3) * np.array(zero) + math.sin(math.pi / 3) * np.array(quarter)
    np.testing.assert_allclose(math.cos(middle) * u + math.sin(middle) * v, expected, atol=1e-9)
    assert source.sector_deg[1] - source.sector_deg[0] == pytest.approx(60)


@pytest.mark.parametrize("sector", [(-2, -1), (-1, 0), (0, 0)])
def test_a_sector_without_a_positive_azimuth_is_a_full_disk(read, sector):
    assert read(with_source(Type="disk", Param1=[3, 0, *sector])).source.sector_deg is None


def test_fringes_at_an_angle_have_a_shorter_edge(read):
    found = read(with_source(Type="fourierx", Dir=[0, 0.6, 0.8], Param1=[0, 10, 0, 10])).source
    assert (found.width_mm, found.height_mm) == pytest.approx((10.0, 8.0))


def test_a_type_that_is_not_known_is_answered_with_all_that_are(read):
    with pytest.raises(InvalidInput, match=r"coneline.*use .*pattern3d"):
        read(with_source(Type="coneline"))


def test_a_slit(read):
    found = read(with_source(Type="slit", Param1=[6, 8, 0, 0], Dir=[0, 0, 1, 30])).source
    assert (found.kind, found.width_mm, found.position_mm, found.focus_mm) == ("slit", 10.0, (32.0, 33.0, 0.0), 30.0)
    np.testing.assert_allclose(found.frame()[0], [0.6, 0.8, 0])


def test_a_slit_whose_rays_spread(read):
    """MCX: Param2[0] across the slit, Param2[1] along it."""
    found = read(with_source(Type="slit", Param1=[6, 8, 0, 0], Param2=[0.3, 0.1, 9, 9])).source
    assert (found.kind, found.spread_across, found.spread_along) == ("slit", 0.3, 0.1)


@pytest.mark.parametrize("direction", [[0, 0, 1], [0, 0, -1], [0, 0.6, 0.8]])
def test_fringes_of_any_cycles_lie_where_mcx_has_them(read, direction):
    """MCX: u along Param1, v along Dir x Param1, which is Param1[3] long; phases in turns."""
    fields = {"Param1": [30, 0, 0, 20], "Param2": [1.5, 2.25, 0.3, 0.4], "Dir": direction}
    one = read(with_source(Type="fourierx", **fields)).source
    other = read(with_source(Type="fourierx2d", **fields)).source
    assert (one.kind, other.kind, one.modulation, other.modulation) == ("fourier", "fourier_2d", pytest.approx(0.6), 1)
    edge = 20 * np.cross(direction, [1, 0, 0])
    for u, v in ((0.1, 0.2), (0.7, 0.4), (0.95, 0.05)):
        where = np.array([29, 29, 0]) + u * np.array([30, 0, 0]) + v * edge
        x, y, z = one.frame() @ (where - one.position_mm)
        assert z == pytest.approx(0.0, abs=1e-9)
        np.testing.assert_allclose(one.frame(), other.frame())
        ours = one.cycles_across * (x / 30 + 0.5) + one.cycles_up * (y / 20 + 0.5) + one.phase_deg / 360
        assert math.cos(2 * math.pi * ours) == pytest.approx(math.cos(2 * math.pi * (1.5 * u + 2.25 * v + 0.3)))
        across = other.cycles_across * (x / 30 + 0.5) + other.phase_deg / 360
        up = other.cycles_up * (y / 20 + 0.5) + other.phase_up_deg / 360
        assert math.sin(2 * math.pi * across) == pytest.approx(math.sin(2 * math.pi * (1.5 * u + 0.3)))
        assert math.sin(2 * math.pi * up) == pytest.approx(math.sin(2 * math.pi * (2.25 * v + 0.4)))


@pytest.mark.parametrize("p2", [[0, 20, 0], [0, -20, 0]])
def test_fringes_lie_where_mcx_has_them(read, p2):
    """MCX: [1 + (1 - M) cos 2 pi (kx u + ky v + f)] / 2 with u, v from 0 to 1 along Param1 and Param2."""
    found = read(with_source(Type="fourier", Param1=[30, 0, 0, 3.2], Param2=[*p2, 2.4])).source
    assert found.modulation == pytest.approx(0.6)
    for u, v in ((0.1, 0.2), (0.7, 0.4), (0.95, 0.05)):
        where = np.array([29, 29, 0]) + u * np.array([30, 0, 0]) + v * np.array(p2)
        x, y, _ = found.frame() @ (where - found.position_mm)
        ours = found.cycles_across * (x / 30 + 0.5) + found.cycles_up * (y / 20 + 0.5) + found.phase_deg / 360
        assert math.cos(2 * math.pi * ours) == pytest.approx(math.cos(2 * math.pi * (3 * u + 2 * v + 0.2)))


@pytest.mark.parametrize(("p1", "p2", "direction"), [
    ([30, 0, 0], [10, 20, 0], [0, 0, 1]), ([30, 0, 0], [0, 20, 0], [0.6, 0, -0.8]), ([0, 0, 9], [0, 20, 9], [1, 1, 0])
])  # fmt: skip
@pytest.mark.parametrize("kind", ["planar", "fourier", "fourierx", "slit"])
def test_slanted_edges_lie_where_mcx_has_them(read, p1, p2, direction, kind):
    root = with_source(Type=kind, Param1=[*p1, 20.0 if kind == "fourierx" else 0], Param2=[*p2, 0], Dir=direction)
    if kind in ("slit", "fourierx"):
        root["Optode"]["Source"]["Param2"] = [0, 0, 0, 0]
    if kind == "fourierx":  # the second edge lies across Dir, and is the shorter the more slanted the first is
        p2 = 20 * np.cross(np.array(direction) / np.linalg.norm(direction), p1) / np.linalg.norm(p1)
    source = read(root).source
    u, v, w = source.frame()
    np.testing.assert_allclose(w, np.array(direction) / np.linalg.norm(direction))
    p2 = np.zeros(3) if kind == "slit" else np.array(p2)
    edges = {tuple(np.round(np.add(a, b), 6)) for a in ((0, 0, 0), p1) for b in (np.zeros(3), p2)}
    corners = source.position_mm + np.array([
        x * u * source.width_mm / 2 + y * v * source.across_mm / 2 for x in (-1, 1) for y in (-1, 1)
    ])  # fmt: skip
    found = {tuple(np.round(corner - [29, 29, 0], 6) + 0.0) for corner in corners}
    assert found == {tuple(np.array(edge) + 0.0) for edge in edges}


def test_an_array_of_beams(read):
    found = read(with_source(Type="pencilarray", Param1=[30, 0, 0, 4], Param2=[0, 20, 0, 3])).source
    assert (found.kind, found.columns, found.rows) == ("pencil_array", 4, 3)
    assert (found.width_mm, found.height_mm, found.position_mm) == (30, 20, (44, 39, 0))


EVERY_SIDE = [0, 0, 1, "_NaN_"]
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


@pytest.mark.parametrize("as_array", [False, True])
def test_a_pattern_in_a_volume(read, as_array):
    """MCX: cell (ix, iy, iz), number ix + Nx (iy + Ny iz), is the voxel at Pos + (ix, iy, iz)."""
    cells = np.arange(1.0, 25.0).reshape(2, 3, 4)
    data = {"Nx": 2, "Ny": 3, "Nz": 4, "Data": cells.ravel(order="F").tolist()}
    pattern = encode_array(cells) if as_array else data
    root = with_source(Type="pattern3d", Pos=[10, 20, 30], Dir=EVERY_SIDE, Param1=[2, 3, 4], Pattern=pattern)
    root["Domain"]["LengthUnit"] = 0.5
    found = read(root).source
    assert (found.kind, found.width_mm, found.height_mm, found.length_mm) == ("volume", 1.0, 1.5, 2.0)
    assert found.position_mm == (5.5, 10.75, 16.0)
    np.testing.assert_array_equal(found.frame(), np.eye(3))
    np.testing.assert_array_equal(found.pattern, cells)


def test_a_list_of_one_source_and_its_weight(read):
    found = read(with_source(Pos=[[29, 29, 0, 2]], Dir=[[0, 0, 1, 0]]))
    assert found.source.position_mm == (29, 29, 0)
    assert any("weight 2 is not used" in note for note in found.notes)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"Type": "pattern3d"}, "a volume, launched along Dir.*_NaN_"),
        ({"Type": "pattern3d", "Dir": EVERY_SIDE}, "give the cells of the volume along x, y and z"),
        ({"Type": "pattern3d", "Dir": EVERY_SIDE, "Param1": [1, 2, 3], "Pattern": {"Nx": 1, "Ny": 3, "Nz": 2}},
         "Nx, Ny, Nz = .1, 3, 2., and Param1 is .1, 2, 3."),
        ({"Type": "pattern3d", "Dir": EVERY_SIDE, "Param1": [2, 1, 1],
          "Pattern": encode_array(np.ones((1, 2, 1)))}, "make them equal"),
        ({"Type": "fourierx", "Param1": [9, 0, 0, 0]}, "Param1.3. is 0; give the length"),
        ({"Type": "planar", "Param1": [9, 0, 9], "Param2": [4, 0, 0]}, "lie in one plane"),
        ({"Type": "hyperboloid"}, "radius_mm is 0"),
        ({"Type": "zgaussian"}, "angle_sd_deg is 0"),
        ({"Type": "slit", "Param1": [9, 0, 1], "Param2": [1]}, "height_axis and a spread"),
        ({"Type": "pencilarray", "Param1": [9, 0, 0, 1], "Param2": [0, 9, 0, 4]}, "are 1 and 4; give"),
        ({"Type": "line", "Param1": [0, 0, 9], "Param2": [0.5]}, "width axis is along its direction"),
        ({"Type": "coneline"}, "type 'coneline', which this engine does not have"),
        ({"Type": "disk", "Param1": [3, 4]}, "inner radius is 4 mm and its radius 3 mm"),
        ({"Type": "ring", "Param1": [3, 1, 0, 7]}, "sector_deg is .* give two angles"),
        ({"Type": "disk", "Param1": [3], "Dir": [0, 0, 1, "_NaN_"]}, "launched isotropically"),
        ({"Type": "cone"}, "half_angle_deg is 0"),
        ({"Type": "gaussian", "Param1": [-1]}, "radius_mm is -1"),
        ({"Type": "planar", "Param1": [9, 0, 0]}, "is zero or too long"),
        ({"Type": "slit", "Dir": [0, 0, 1, "_NaN_"]}, "give the line as a vector"),
        (PATTERN | {"Param1": [9, 0, 0, 3], "Param2": [0, 9, 0, 3]}, "make them the same"),
        (PATTERN | {"Param1": [9, 0, 0, 3], "Param2": [0, 9, 0, 2], "SrcNum": 3}, "give a list of 18 numbers"),
        ({"Type": "pattern", "Param1": [9, 0, 0, 2], "Param2": [0, 9, 0, 2]}, "Nx is missing"),
        ({"Type": "pattern", "Param1": [9, 0, 0, 1], "Param2": [0, 9, 0, 1],
          "Pattern": {"Nx": 1, "Ny": 1, "Data": "p.bin"}}, "p.bin does not exist"),
        ({"Pos": [1, 1]}, "3 to 4 numbers"),
        ({"Dir": [0, 0, 0]}, "direction is .0, 0, 0."),
        ({"Dir": [0, 0, "_NaN_"]}, r"direction\[2\] is nan; give a finite number"),
        ({"Type": 3}, "give a text"),
        ({"AngleInverseCDF": [0, 0.2, 0.1]}, "fall from 36 to 18 degrees"),
        ({"AngleInverseCDF": [0, 1.1]}, "from 0 to 180 degrees"),
        ({"AngleInverseCDF": [0.1]}, "has 1 launch angles; give 2"),
        ({"AngleInverseCDF": "x"}, "give a list of"),
        ({"AngleInverseCDF": [0, 0.1], "Type": "isotropic", "Dir": [0, 0, 1, 2]}, "counts angles from where"),
        ({"AngleInverseCDF": [0, 0.1], "Type": "hyperboloid", "Param1": [3, 20, 8]}, "type 'hyperboloid'"),
    ],
)  # fmt: skip
def test_sources_without_a_counterpart(read, fields, words):
    with pytest.raises(InvalidInput, match=words):
        read(with_source(**fields))
