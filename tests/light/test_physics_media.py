"""Properties voxel by voxel and tabulated phase functions against labels and against Henyey and Greenstein."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.jit import kernel
from napari_gpubio.light.kernels.voxels import trace
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import FACES, FaceDetector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources import Isotropic, Pencil
from tests.light.voxel_samples import TISSUE, check_z, layers, make_domain, sliced
from tests.optics.phase_samples import inverse_henyey_greenstein

SHAPE = (8, 8, 12)
SOURCE = Pencil(position_mm=(4.0, 4.0, -1.0))
SETTINGS = LightSettings(photons=4000, exit_map=True, time_gates_ns=(0.0, 0.05, 1.0))


def run(device, domain, **changes):
    return simulate(domain, SOURCE, dataclasses.replace(SETTINGS, **changes), device=device)


def check_same_light(a, b):
    """All tallies are the same to the last bit, whatever rows of media they were made with."""
    np.testing.assert_array_equal(a.state.sums, b.state.sums)
    np.testing.assert_array_equal(a.state.exits, b.state.exits)
    assert repr(a.energy) == repr(b.energy)


def check_same_on_average(a, b):
    """What each layer absorbs, and what escapes, agree within errors."""
    pairs = [(a.energy.escaped, b.energy.escaped), *((a.absorbed[label], b.absorbed[label]) for label in a.absorbed)]
    check_z([x.value - y.value for x, y in pairs], [np.hypot(x.error, y.error) for x, y in pairs])


@pytest.mark.parametrize("name", ["g", "n", "mua_per_mm", "mus_per_mm"])
def test_a_volume_of_one_property_is_labels_with_it(device, name):
    """Three layers that differ in one property, as three labels and as one label with a volume."""
    values = {
        "g": (0.0, 0.9, -0.4),
        "n": (1.4, 1.0, 1.6),
        "mua_per_mm": (0.01, 0.5, 0.0),
        "mus_per_mm": (2.0, 0.1, 9.0),
    }
    media = [dataclasses.replace(m, **{name: v}) for m, v in zip(sliced(TISSUE, 3), values[name], strict=True)]
    labeled = layers(SHAPE, *media)
    volume = np.broadcast_to(np.repeat(np.float32(values[name]), 4), SHAPE)
    check_same_light(run(device, make_domain(SHAPE, TISSUE, **{name: volume})), run(device, labeled))


def test_light_is_refracted_within_a_label(device):
    """At an interface of n alone Snell's law holds, and total reflection: nothing else is there."""
    n = np.ones((20, 20, 20))
    n[..., 10:] = 1.5
    clear = make_domain(n.shape, Medium(label=1), n=n, outside_n=1.5)
    for along, expected in ((1.0, 0.6 / 1.5), (-1.0, None)):
        sine = 0.6 if along > 0 else 0.8  # 0.8 x 1.5 > 1
        source = Pencil(position_mm=(4.0, 10.0, 10.0 - 5 * along), direction=(sine, 0.0, along * np.sqrt(1 - sine**2)))
        settings = LightSettings(photons=2000, seed=3, specular=False)
        result = simulate(clear, source, settings, detectors=[FaceDetector(face=f) for f in FACES], device=device)
        behind = result.detected.of(FACES.index("+k"))
        if expected is None:
            assert len(result.detected.of(FACES.index("-k"))) == 0
        else:
            np.testing.assert_allclose(behind.direction[:, 0], expected, atol=1e-6)
            assert len(behind) > 1900


@pytest.mark.parametrize("g", [-0.5, 0.8])
def test_a_table_of_henyey_and_greenstein_gives_the_same_light(device, g):
    table = TabulatedPhaseFunction(cosines=inverse_henyey_greenstein(g, 2000))

    def sliced_domain(g, **more):
        return layers(SHAPE, *sliced(dataclasses.replace(TISSUE, g=g, mus_per_mm=3.0), 4), **more)

    tabulated = run(device, sliced_domain(0.0, phase_function=table), photons=40_000, seed=2)
    check_same_on_average(tabulated, run(device, sliced_domain(g), photons=40_000))
    with pytest.raises(AssertionError):  # so much would be seen
        check_same_on_average(tabulated, run(device, sliced_domain(g + (0.5 if g < 0 else 0.1)), photons=40_000))


@kernel
def cosines(table, count):
    out = np.empty(count, np.float32)
    for i in range(count):
        out[i] = trace.deflection(table, np.float32(0.0), np.float32((i + 0.5) / count))
    return out


def test_cosines_are_interpolated_between_the_points_of_the_table():
    table = np.array([-1.0, -0.5, -0.5, 0.7, 1.0], np.float32)
    u = (np.arange(100_000) + 0.5) / 100_000
    expected = np.interp(u, np.linspace(0, 1, 5), table)
    np.testing.assert_allclose(cosines(table, len(u)), expected, atol=3e-6)


def test_whole_faces_detect_what_escapes_through_them(device):
    """Light of a cube escapes through its faces; together they detect all of it, and each as much as its map has."""
    labels = np.ones((6, 6, 6), np.uint8)
    labels[2:4, 2:4, 4:] = 0  # a hole that is open to +k: what escapes into it is not detected
    faces = [FaceDetector(face=face) for face in FACES]
    source = Isotropic(position_mm=(3.0, 3.0, 2.0))
    result = simulate(make_domain(labels), source, LightSettings(photons=3000), detectors=faces, device=device)
    ends = {"-": 0.0, "+": 6.0}
    for index, face in enumerate(FACES):
        place = result.detected.of(index).position_mm[:, "ijk".index(face[1])]
        assert len(place) > 100
        np.testing.assert_allclose(place, ends[face[0]], atol=1e-5)
    inside = 1.0 - result.detected.detected_weight / result.energy.escaped.value
    assert 0.02 < inside < 0.3
