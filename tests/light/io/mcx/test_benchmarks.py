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
    assert (ball(15), ball(10)) == (14328, 4224)  # what MCX 0.8.1 draws for cubesph60b and spherebox
    assert circle(20) == 1257  # Gauss's circle problem


def test_axes_of_voxels_are_x_y_z(read):
    np.testing.assert_array_equal(read("colin27").domain.labels, colin_labels())
    labels = read("skinvessel").domain.labels  # the vessel lies along x at half depth
    assert (labels[:, 100, 100] == 2).all()
    np.testing.assert_array_equal(labels[0] == 2, labels[199] == 2)
    where = np.argwhere(labels[0] == 2)
    assert (where.min(axis=0).tolist(), where.max(axis=0).tolist()) == ([80, 80], [120, 120])
    assert labels[5, 5, [0, 19, 20, 31, 32, 199]].tolist() == [1, 1, 4, 4, 3, 3]


@pytest.mark.parametrize(
    ("name", "kind", "position", "direction", "sizes", "detectors"),
    [
        ("cube60", "pencil", (29, 29, 0), (0, 0, 1), {}, 4),
        ("cube60planar", "planar", (30, 30, -10), (0, 0, 1), {"width_mm": 40, "height_mm": 40}, 4),
        ("spherebox", "pencil", (29.5, 29.5, 0), (0, 0, 1), {}, 4),
        ("sphshells", "pencil", (30, 30.1, 0), (0, 0, 1), {}, 0),
        ("skinvessel", "disk", (0.5, 0.5, 0.1), (0, 0, 1), {"radius_mm": 0.3}, 0),
        ("onecube", "pencil", (30, 30, 0), (0, 0, 1), {}, 1),
        ("colin27", "pencil", (8, 6.738, 1), (0.1636, 0.4569, 0.8743), {}, 1),
    ],
)
def test_source_and_detectors(read, name, kind, position, direction, sizes, detectors):
    found = read(name)
    assert found.source.kind == kind
    np.testing.assert_allclose(found.source.position_mm, position, rtol=1e-12)
    np.testing.assert_allclose(found.source.direction, direction, rtol=1e-12)
    assert {key: getattr(found.source, key) for key in sizes} == pytest.approx(sizes)
    assert len(found.detectors) == detectors
    if name == "onecube":
        (small,) = found.detectors
        assert (*small.position_mm, small.radius_mm) == pytest.approx((30, 27, 0, 1), rel=1e-6)
        assert small.normal is None


def test_media_and_refraction(read):
    head, skin = read("colin27"), read("skinvessel")
    assert [(m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in head.domain.media] == list(COLIN_MEDIA)
    assert [m.label for m in head.domain.media] == [1, 2, 3, 4, 5, 6]
    assert head.domain.outside_n == 1.0
    assert (skin.domain.outside_n, skin.domain.medium(2).mua_per_mm) == (
        1.37,
        23.05426549,
    )  # per mm, whatever the voxel
    assert [one.settings.refraction for one in (head, read("cube60"), read("cube60b"))] == [True, False, True]
    assert not head.settings.specular
    assert skin.settings.time_gates_ns == (0.0, 50.0)


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
    for a, b in zip(second.detectors, first.detectors, strict=True):
        assert (*a.position_mm, a.radius_mm) == pytest.approx((*b.position_mm, b.radius_mm), rel=1e-6)
