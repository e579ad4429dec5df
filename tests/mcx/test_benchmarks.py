"""MCX's built-in benchmarks: read, they are the cases that the package builds; written back, they are the same."""

import numpy as np
import pytest

from napari_gpubio.light.benchmarks import benchmark
from napari_gpubio.mcx.io.cases import read_mcx, write_mcx
from tests.mcx.samples import COLIN_MEDIA, benchmarks, colin_labels, written

NAMES = list(benchmarks())


@pytest.fixture
def read(tmp_path):
    return lambda name: read_mcx(written(tmp_path, benchmarks()[name], f"{name}.json"))


def numbers_of(source):
    sizes = (getattr(source, name, 0.0) for name in ("radius_mm", "width_mm", "height_mm"))
    return (*source.position_mm, *source.direction, *sizes)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "colin27"])
def test_they_are_the_cases_of_the_package(read, name):
    """These have the counts of voxels of another program, and their properties from MCX's files."""
    found, ours = read(name), benchmark(name)
    np.testing.assert_array_equal(found.domain.labels, ours.domain.labels)
    np.testing.assert_allclose(found.domain.affine, ours.domain.affine, rtol=1e-12)
    assert found.domain.outside_n == ours.domain.outside_n
    for expected in ours.domain.media:
        medium = found.domain.medium(expected.label)
        assert [getattr(medium, key) for key in ("mua_per_mm", "mus_per_mm", "g", "n")] == [
            getattr(expected, key) for key in ("mua_per_mm", "mus_per_mm", "g", "n")
        ]
    assert found.source.kind == ours.source.kind
    assert numbers_of(found.source) == pytest.approx(numbers_of(ours.source), rel=1e-12)
    for a, b in zip(found.detectors, ours.detectors, strict=True):
        assert a.normal is None
        assert (*a.position_mm, a.radius_mm) == pytest.approx((*b.position_mm, b.radius_mm), rel=1e-6)
    for key in ("refraction", "specular", "faces"):
        assert getattr(found.settings, key) == getattr(ours.settings, key)
    assert found.settings.time_gates_ns == pytest.approx(ours.settings.time_gates_ns)


def test_a_head_in_an_array(read):
    found = read("colin27")
    np.testing.assert_array_equal(found.domain.labels, colin_labels())  # axes x, y, z
    assert [(m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in found.domain.media] == list(COLIN_MEDIA)
    assert [m.label for m in found.domain.media] == [1, 2, 3, 4, 5, 6]
    assert (found.source.position_mm, found.source.direction) == ((8, 6.738, 1), (0.1636, 0.4569, 0.8743))
    assert (found.settings.refraction, found.settings.specular) == (True, False)


@pytest.mark.daily
@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(tmp_path, read, name):
    first = read(name)
    write_mcx(tmp_path / "back.json", first.domain, first.source, first.settings, first.detectors)
    second = read_mcx(tmp_path / "back.json")
    np.testing.assert_array_equal(second.domain.labels, first.domain.labels)
    assert second.domain.labels.dtype == first.domain.labels.dtype
    np.testing.assert_allclose(second.domain.affine, first.domain.affine, rtol=1e-12)
    assert (second.domain.media, second.domain.outside_n) == (first.domain.media, first.domain.outside_n)
    assert second.settings == first.settings
    assert (second.source.kind, second.name) == (first.source.kind, "back")
    np.testing.assert_allclose(second.source.position_mm, first.source.position_mm, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(second.source.frame(), first.source.frame(), atol=1e-12)
    for a, b in zip(second.detectors, first.detectors, strict=True):
        assert (*a.position_mm, a.radius_mm) == pytest.approx((*b.position_mm, b.radius_mm), rel=1e-6)
