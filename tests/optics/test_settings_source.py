"""Settings and sources: limits, and a sentence for what is refused."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import MAX_PHOTONS, LightSettings
from napari_gpubio.optics.sources import KINDS, EmittingBox, PatternArea, Pencil, Planar
from tests.light.voxel_samples import make_domain, source_of

NAN, INF = float("nan"), float("inf")
SQUARE = np.ones((2, 2))

# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"photons": 0}, "photons is 0; it must be at least 1"),
        ({"photons": -5}, "photons is -5; it must be at least 1"),
        ({"photons": 1e6}, "photons is 1000000.0; give an integer"),
        ({"photons": MAX_PHOTONS + 1}, "photons is 1e[+]12; it must be at most 1e[+]12"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"seed": 2**64}, "seed is .*; it must be at most"),
        ({"roulette_threshold": 1.5}, "roulette_threshold is 1.5; it must be at most 1"),
        ({"roulette_threshold": NAN}, "roulette_threshold is nan; give a finite number"),
        ({"batches": 1}, "batches is 1; it must be at least 2"),
        ({"refraction": 1}, "refraction is 1; give True or False"),
        ({"max_detected": -1}, "max_detected is -1; it must be at least 0"),
        ({"faces": ("default",) * 5}, "faces has 5 values; give 6"),
        ({"faces": ("closed",) * 6}, "faces is .*; give six of default"),
        ({"faces": ("cyclic",) + ("default",) * 5}, "only one face of axis i is cyclic; make both cyclic or neither"),
        ({"faces": ("default",) * 5 + ("cyclic",)}, "only one face of axis k is cyclic"),
    ],
)
def test_settings_that_are_refused(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        LightSettings(**values)


@pytest.mark.parametrize("gates", [(), (1.0,), (1.0, 1.0), (0.0, 2.0, 1.0), (-1.0, 1.0)])
def test_time_gates_that_are_refused(gates):
    with pytest.raises(InvalidInput, match=r"the time gates are .* ns; give at least two edges, from 0 up, each later"):
        LightSettings(time_gates_ns=gates)


@pytest.mark.parametrize("edge", [NAN, INF])
def test_time_gates_are_finite(edge):
    with pytest.raises(InvalidInput, match=r"time_gates_ns\[1\] is .*; give a finite number"):
        LightSettings(time_gates_ns=(0.0, edge))


def test_what_is_allowed():
    settings = LightSettings(time_gates_ns=np.array([1, 2, 5]), faces=["cyclic"] * 2 + ["mirror"] * 4, seed=2**63)
    assert settings.time_gates_ns == (1.0, 2.0, 5.0)
    assert settings.gate_count == 2
    assert settings.faces == ("cyclic", "cyclic", "mirror", "mirror", "mirror", "mirror")
    assert LightSettings(photons=np.int64(7)).photons == 7
    LightSettings(roulette_threshold=0.0)
    LightSettings(roulette_threshold=1.0, photons=MAX_PHOTONS)


# -- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"direction": (0, 0, 0)}, r"the source's direction is \(0, 0, 0\); give the direction of emission"),
        ({"direction": (0, NAN, 1)}, r"direction\[1\] is nan; give a finite number"),
        ({"position_mm": (0, 0)}, "position_mm has 2 values; give 3"),
        ({"position_mm": (0, INF, 0)}, r"position_mm\[1\] is inf; give a finite number"),
        ({"kind": "fiber", "radius_mm": 0}, "radius_mm is 0 mm; it must be greater than 0 mm"),
        ({"kind": "fiber", "numerical_aperture": -0.1}, "numerical_aperture is -0.1; it must be greater than 0"),
        ({"kind": "cone", "half_angle_deg": 181}, "half_angle_deg is 181 °; it must be at most 180 °"),
        ({"kind": "planar", "width_mm": -1}, "width_mm is -1 mm; it must be greater than 0 mm"),
        ({"kind": "planar", "height_mm": NAN}, "height_mm is nan; give a finite number in mm"),
        ({"kind": "line", "length_mm": 0}, "length_mm is 0 mm; it must be greater than 0 mm"),
        (
            {"kind": "planar", "width_axis": (0, 0, 2)},
            "the source's width axis is along its direction",
        ),
        ({"kind": "disk", "inner_radius_mm": 1.0}, "inner radius is 1 mm and its radius 1 mm; give a smaller"),
        ({"kind": "disk", "inner_radius_mm": -1}, "inner_radius_mm is -1 mm; it must be at least 0 mm"),
        (
            {"kind": "disk", "sector_deg": (90, 90)},
            r"sector_deg is \(90.0, 90.0\); give two angles, the second",
        ),
        ({"kind": "disk", "sector_deg": (0, 361)}, "the second up to 360 degrees larger"),
        ({"kind": "disk", "sector_deg": (0, NAN)}, r"sector_deg\[1\] is nan; give a finite number"),
        ({"kind": "disk", "sector_deg": 30}, "sector_deg is 30; give a list"),
        ({"kind": "slit", "focus_mm": 1.0, "spread_along": 0.1}, "a spread and a focus at 1 mm; give one of them"),
        ({"kind": "disk", "focus_mm": INF}, "focus_mm is inf; give a finite number in mm"),
        ({"kind": "hyperboloid", "rayleigh_mm": 0}, "rayleigh_mm is 0 mm; it must be greater than 0 mm"),
        ({"kind": "pencil_array", "columns": 0}, "columns is 0; it must be at least 1"),
        ({"kind": "fourier", "modulation": 1.1}, "modulation is 1.1; it must be at most 1"),
        ({"kind": "zgaussian", "angle_sd_deg": 0}, "angle_sd_deg is 0 °; it must be greater than 0 °"),
        ({"kind": "pattern", "pattern": np.ones(4)}, r"pattern has shape \(4,\); give a two-dimensional image"),
        ({"kind": "pattern", "pattern": np.ones((0, 4))}, "give a two-dimensional image"),
        ({"kind": "pattern", "pattern": -SQUARE}, "must be finite, nowhere negative and somewhere positive"),
        ({"kind": "pattern", "pattern": 0 * SQUARE}, "nowhere negative and somewhere positive"),
        ({"kind": "pattern", "pattern": NAN * SQUARE}, "must be finite"),
    ],
)
def test_sources_that_are_refused(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        made(**values)


def made(kind="pencil", **values):
    return KINDS[kind](**values)


@pytest.mark.parametrize("kind", KINDS)
def test_what_would_be_ignored_cannot_be_written(kind):
    """Nor is a number lost on the way to another kind, as far as that has it."""
    names = {one: {f.name for f in dataclasses.fields(one)} for one in KINDS.values()}
    own = names[KINDS[kind]]
    for name in set().union(*names.values()) - own:
        with pytest.raises(TypeError, match=name):
            made(kind, **{name: 1.0})
    pattern = np.ones((2, 2, 2) if kind == "volume" else (2, 2))
    more = {"radius_mm": 0.3, "width_mm": 4.0, "pattern": pattern}
    given = source_of(kind, position_mm=(1, 2, 3), direction=(0, 1, 1), weight=2.0, **more)
    for other in [one for one in KINDS.values() if "pattern" not in names[one]]:
        common = own & names[other]
        changed = given.changed_to(other)
        assert {name: getattr(changed, name) for name in common} == {name: getattr(given, name) for name in common}


@pytest.mark.parametrize("area", [PatternArea(position_mm=(2, 2, 2)), EmittingBox(position_mm=(2, 2, 2))])
def test_a_pattern_may_come_later_but_not_too_late(area):
    with pytest.raises(InvalidInput, match=f"kind '{area.kind}' needs its pattern"):
        simulate(make_domain((4, 4, 4)), area, LightSettings(photons=10), device="cpu")
    given = np.ones((2, 2) if area.kind == "pattern" else (2, 2, 2))
    whole = area.changed_to(KINDS[area.kind], pattern=given)
    assert whole == dataclasses.replace(whole, pattern=given.copy()) != dataclasses.replace(whole, pattern=2 * given)
    assert whole != dataclasses.replace(whole, weight=2.0)
    assert hash(whole) == hash(dataclasses.replace(whole))
    assert whole.changed_to(type(area)) == area


@pytest.mark.parametrize("direction", [(0, 0, 1), (0, 0, -2), (1, 0, 0), (-3, 0, 0.1), (1, 2, 3), (0.95, 0.1, 0)])
@pytest.mark.parametrize("width_axis", [None, (0, 1, 0.2), (-4, 1, 1)])
def test_the_frame_is_right_handed_and_looks_ahead(direction, width_axis):
    frame = Planar(direction=direction, width_axis=width_axis).frame()
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame) == pytest.approx(1.0)
    np.testing.assert_allclose(frame[2] * np.linalg.norm(direction), direction, atol=1e-12)
    if width_axis is not None:
        assert frame[0] @ width_axis > 0


def test_a_square_stays_a_square():
    """Without a width axis, the sides of a rectangle that emits along z or y are along the axes."""
    for direction in ((0, 0, 1), (0, 1, 0), (0, 0, -1)):
        np.testing.assert_allclose(np.abs(Planar(direction=direction).frame()).max(axis=1), 1.0)


def test_vectors_become_tuples_of_floats():
    source = Pencil(position_mm=np.array([1, 2, 3]), direction=[0, 1, 0])
    assert (source.position_mm, source.direction) == ((1.0, 2.0, 3.0), (0.0, 1.0, 0.0))
    assert all(type(number) is float for number in (*source.position_mm, *source.direction))
