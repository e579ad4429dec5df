"""MCX's built-in benchmarks, read and written back: voxels, media, source, detectors, settings."""

import numpy as np
import pytest

from napari_gpubio.light.io.mcx.cases import read_mcx, write_mcx
from tests.light.io.mcx.samples import COLIN_MEDIA, benchmarks, colin_labels, written

NAMES = list(benchmarks())


@pytest.fixture
def read(tmp_path):
    return lambda name: read_mcx(written(tmp_path, benchmarks()[name], f"{name}.json"))


def ball(radius: int) -> int:
    """Voxel centers within a sphere around a corner of voxels: odd numbers a, b, c with a² + b² + c² <= (2 r)²."""
    odd = np.arange(1, 2 * radius + 1, 2) ** 2
    return 8 * int((odd[:, None, None] + odd[:, None] + odd <= 4 * radius**2).sum())


def circle(radius: int) -> int:
    """Gauss's circle problem: whole a, b with a² + b² <= r²."""
    squares = np.arange(-radius, radius + 1) ** 2
    return int((squares[:, None] + squares <= radius**2).sum())


def test_counts_that_are_known():
    assert (ball(15), ball(10)) == (14328, 4224)  # what MCX 0.8.1 draws for cubesph60b and spherebox
    assert circle(20) == 1257  # Gauss's circle problem


CUBE = 60**3
VESSEL = circle(20) * 200
COUNTS = {
    "cube60": [0, CUBE],
    "cube60b": [0, CUBE],
    "cube60planar": [0, CUBE],
    "cubesph60b": [0, CUBE - ball(15), ball(15)],
    "spherebox": [0, CUBE - ball(10), ball(10)],
    "sphshells": [0, CUBE - ball(25), ball(25) - ball(23), ball(23) - ball(10), ball(10)],
    "skinvessel": [0, 200 * 200 * 20, VESSEL, 200 * 200 * 168 - VESSEL, 200 * 200 * 12],
    "onecube": [0, 1],
    "colin27": np.bincount(colin_labels().ravel()).tolist(),
}


@pytest.mark.parametrize("name", NAMES)
def test_voxels(read, name):
    assert np.bincount(read(name).domain.labels.ravel()).tolist() == COUNTS[name]


def test_axes_of_an_array_are_x_y_z(read):
    np.testing.assert_array_equal(read("colin27").domain.labels, colin_labels())


def test_vessel_lies_along_x_at_half_depth(read):
    labels = read("skinvessel").domain.labels
    assert (labels[:, 100, 100] == 2).all()
    np.testing.assert_array_equal(labels[0] == 2, labels[199] == 2)
    where = np.argwhere(labels[0] == 2)
    assert where.min(axis=0).tolist() == [80, 80]
    assert where.max(axis=0).tolist() == [120, 120]
    assert labels[5, 5, [0, 19, 20, 31, 32, 199]].tolist() == [1, 1, 4, 4, 3, 3]


@pytest.mark.parametrize(
    ("name", "kind", "position", "direction", "sizes"),
    [
        ("cube60", "pencil", (29, 29, 0), (0, 0, 1), {}),
        ("cube60planar", "planar", (30, 30, -10), (0, 0, 1), {"width_mm": 40, "height_mm": 40}),
        ("spherebox", "pencil", (29.5, 29.5, 0), (0, 0, 1), {}),
        ("sphshells", "pencil", (30, 30.1, 0), (0, 0, 1), {}),
        ("skinvessel", "disk", (0.5, 0.5, 0.1), (0, 0, 1), {"radius_mm": 0.3}),
        ("onecube", "pencil", (30, 30, 0), (0, 0, 1), {}),
        ("colin27", "pencil", (8, 6.738, 1), (0.1636, 0.4569, 0.8743), {}),
    ],
)
def test_source(read, name, kind, position, direction, sizes):
    source = read(name).source
    assert source.kind == kind
    np.testing.assert_allclose(source.position_mm, position, rtol=1e-12)
    np.testing.assert_allclose(source.direction, direction, rtol=1e-12)
    assert {key: getattr(source, key) for key in sizes} == pytest.approx(sizes)


def test_media(read):
    head = read("colin27").domain
    assert [(m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in head.media] == list(COLIN_MEDIA)
    assert [m.label for m in head.media] == [1, 2, 3, 4, 5, 6]
    assert head.outside_n == 1.0
    skin = read("skinvessel").domain
    assert (skin.outside_n, skin.medium(2).mua_per_mm) == (1.37, 23.05426549)  # per mm, whatever the voxel's size


def test_detectors(read):
    found = read("cube60").detectors
    assert [d.position_mm for d in found] == [(29, 19, 0), (29, 39, 0), (19, 29, 0), (39, 29, 0)]
    assert all(d.radius_mm == 1 and d.normal is None for d in found)
    (small,) = read("onecube").detectors
    assert small.position_mm == pytest.approx((30, 27, 0))
    assert small.radius_mm == pytest.approx(1.0, rel=1e-6)
    assert read("skinvessel").detectors == ()


@pytest.mark.parametrize(("name", "refraction"), [("cube60", False), ("cube60b", True), ("colin27", True)])
def test_refraction(read, name, refraction):
    settings = read(name).settings
    assert settings.refraction is refraction
    assert settings.specular is False
    assert settings.faces == ("default",) * 6


def test_numbers_of_the_run(read):
    settings = read("cube60").settings
    assert (settings.photons, settings.seed, settings.time_gates_ns) == (1_000_000, 1648335518, (0.0, 5.0))
    gates = read("spherebox").settings.time_gates_ns
    assert gates == tuple(pytest.approx(n / 10) for n in range(51))
    assert read("skinvessel").settings.time_gates_ns == (0.0, 50.0)


def test_grid_positions_are_those_of_mcx(read):
    domain = read("skinvessel").domain
    np.testing.assert_allclose(domain.voxel_sizes_mm, 0.005)
    positions = np.array([[0, 0, 0], [100, 100, 20], [0.25, 199.5, 200]]) * 0.005
    np.testing.assert_allclose(domain.world_to_grid(positions), positions, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(tmp_path, read, name):
    first = read(name)
    write_mcx(tmp_path / "back.json", first.domain, first.source, first.settings, first.detectors)
    second = read_mcx(tmp_path / "back.json")
    np.testing.assert_array_equal(second.domain.labels, first.domain.labels)
    assert second.domain.labels.dtype == first.domain.labels.dtype
    np.testing.assert_allclose(second.domain.affine, first.domain.affine, rtol=1e-12)
    assert second.domain.media == first.domain.media
    assert second.domain.outside_n == first.domain.outside_n
    assert second.settings == first.settings
    assert (second.source.kind, second.name) == (first.source.kind, "back")
    np.testing.assert_allclose(second.source.position_mm, first.source.position_mm, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(second.source.frame(), first.source.frame(), atol=1e-12)
    sizes = ("radius_mm", "width_mm", "height_mm", "length_mm")
    assert [getattr(second.source, s) for s in sizes] == pytest.approx([getattr(first.source, s) for s in sizes])
    for a, b in zip(second.detectors, first.detectors, strict=True):
        assert (*a.position_mm, a.radius_mm) == pytest.approx((*b.position_mm, b.radius_mm), rel=1e-6)
