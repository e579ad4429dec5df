"""Settings and sources: limits, and a sentence for what is refused."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.settings import MOST_PHOTONS, LightSettings
from napari_gpubio.light.source import Source

NAN, INF = float("nan"), float("inf")
SQUARE = np.ones((2, 2))

# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"photons": 0}, "photons is 0; it must be at least 1"),
        ({"photons": -5}, "photons is -5; it must be at least 1"),
        ({"photons": 1e6}, "photons is 1000000.0; give an integer"),
        ({"photons": MOST_PHOTONS + 1}, "photons is 1e[+]12; it must be at most 1e[+]12"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"seed": 2**64}, "seed is .*; it must be at most"),
        ({"roulette_threshold": 1.5}, "roulette_threshold is 1.5; it must be at most 1"),
        ({"roulette_threshold": NAN}, "roulette_threshold is nan; give a finite number"),
        ({"batches": 1}, "batches is 1; it must be at least 2"),
        ({"refraction": 1}, "refraction is 1; give True or False"),
        ({"max_detected": -1}, "max_detected is -1; it must be at least 0"),
        ({"faces": ("default",) * 5}, "faces is .*; give six of default, escape, fresnel, mirror, cyclic, in"),
        ({"faces": ("closed",) * 6}, "faces is .*; give six of default"),
        ({"faces": ("cyclic",) + ("default",) * 5}, "only one face of axis i is cyclic; make both cyclic or neither"),
        ({"faces": ("default",) * 5 + ("cyclic",)}, "only one face of axis k is cyclic"),
    ],
)
def test_settings_that_are_refused(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        LightSettings(**values)


@pytest.mark.parametrize("gates", [(), (1.0,), (1.0, 1.0), (0.0, 2.0, 1.0), (-1.0, 1.0), (0.0, NAN), (0.0, INF)])
def test_time_gates_that_are_refused(gates):
    with pytest.raises(InvalidInput, match=r"the time gates are .* ns; give at least two edges, from 0 up, each later"):
        LightSettings(time_gates_ns=gates)


def test_what_is_allowed():
    settings = LightSettings(time_gates_ns=np.array([1, 2, 5]), faces=["cyclic"] * 2 + ["mirror"] * 4, seed=2**63)
    assert settings.time_gates_ns == (1.0, 2.0, 5.0)
    assert settings.gate_count == 2
    assert settings.faces == ("cyclic", "cyclic", "mirror", "mirror", "mirror", "mirror")
    assert LightSettings(photons=np.int64(7)).photons == 7
    LightSettings(roulette_threshold=0.0)
    LightSettings(roulette_threshold=1.0, photons=MOST_PHOTONS)


# -- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"kind": "laser"}, "kind is 'laser'; choose one of 'pencil', 'isotropic'"),
        ({"direction": (0, 0, 0)}, r"the source's direction is \(0, 0, 0\); give the direction of emission"),
        ({"direction": (0, NAN, 1)}, "the source's direction is .*; give three finite numbers"),
        ({"position_mm": (0, 0)}, "the source's position_mm is .*; give three finite numbers"),
        ({"position_mm": (0, INF, 0)}, "the source's position_mm is .*; give three finite numbers"),
        ({"radius_mm": 0}, "radius_mm is 0 mm; it must be greater than 0 mm"),
        ({"numerical_aperture": -0.1}, "numerical_aperture is -0.1; it must be greater than 0"),
        ({"half_angle_deg": 181}, "half_angle_deg is 181 °; it must be at most 180 °"),
        ({"width_mm": -1}, "width_mm is -1 mm; it must be greater than 0 mm"),
        ({"height_mm": NAN}, "height_mm is nan; give a finite number in mm"),
        ({"length_mm": 0}, "length_mm is 0 mm; it must be greater than 0 mm"),
        ({"width_axis": (0, 0, 2)}, "the source's width axis is along its direction; give one across it"),
        ({"kind": "disk", "inner_radius_mm": 1.0}, "inner radius is 1 mm and its radius 1 mm; give a smaller"),
        ({"inner_radius_mm": -1}, "inner_radius_mm is -1 mm; it must be at least 0 mm"),
        ({"kind": "disk", "sector_deg": (90, 90)}, r"sector_deg is \(90, 90\); give two angles, the second up to 360"),
        ({"kind": "disk", "sector_deg": (0, 361)}, "the second up to 360 degrees larger"),
        ({"kind": "disk", "sector_deg": (0, NAN)}, "give two angles"),
        ({"kind": "disk", "sector_deg": 30}, "give two angles"),
        ({"kind": "fiber", "sector_deg": (0, 30)}, "choose one of disk"),
        ({"focus_mm": INF}, "focus_mm is inf; give a finite number in mm"),
        ({"rayleigh_mm": 0}, "rayleigh_mm is 0 mm; it must be greater than 0 mm"),
        ({"columns": 0}, "columns is 0; it must be at least 1"),
        ({"modulation": 1.1}, "modulation is 1.1; it must be at most 1"),
        ({"angle_sd_deg": 0}, "angle_sd_deg is 0 °; it must be greater than 0 °"),
        ({"kind": "pattern"}, "a source of kind 'pattern' needs its pattern: an image of the irradiance"),
        ({"kind": "pattern", "pattern": np.ones(4)}, r"pattern has shape \(4,\); give a two-dimensional image"),
        ({"kind": "pattern", "pattern": np.ones((0, 4))}, "give a two-dimensional image"),
        ({"kind": "pattern", "pattern": -SQUARE}, "must be finite, nowhere negative and somewhere positive"),
        ({"kind": "pattern", "pattern": 0 * SQUARE}, "nowhere negative and somewhere positive"),
        ({"kind": "pattern", "pattern": NAN * SQUARE}, "must be finite"),
    ],
)
def test_sources_that_are_refused(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Source(**values)


@pytest.mark.parametrize("direction", [(0, 0, 1), (0, 0, -2), (1, 0, 0), (-3, 0, 0.1), (1, 2, 3), (0.95, 0.1, 0)])
@pytest.mark.parametrize("width_axis", [None, (0, 1, 0.2), (-4, 1, 1)])
def test_the_frame_is_right_handed_and_looks_ahead(direction, width_axis):
    frame = Source(direction=direction, width_axis=width_axis).frame()
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame) == pytest.approx(1.0)
    np.testing.assert_allclose(frame[2] * np.linalg.norm(direction), direction, atol=1e-12)
    if width_axis is not None:
        assert frame[0] @ width_axis > 0


def test_a_square_stays_a_square():
    """Without a width axis, the sides of a rectangle that emits along z or y are along the axes."""
    for direction in ((0, 0, 1), (0, 1, 0), (0, 0, -1)):
        np.testing.assert_allclose(np.abs(Source(direction=direction).frame()).max(axis=1), 1.0)


def test_vectors_become_tuples_of_floats():
    source = Source(position_mm=np.array([1, 2, 3]), direction=[0, 1, 0])
    assert dataclasses.astuple(source)[1:3] == ((1.0, 2.0, 3.0), (0.0, 1.0, 0.0))
