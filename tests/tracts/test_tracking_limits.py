"""Settings of tracking: what is allowed, and what is said of the rest."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info
from napari_gpubio.tracts import Directions, FitSettings, TrackSettings

NAN, INF = float("nan"), float("inf")


def bad_values():
    """Every parameter of every settings class just beyond each of its limits, and what must be said."""
    for settings in (Directions, TrackSettings, FitSettings):
        for field in dataclasses.fields(settings):
            info = param_info(field)
            if info is None or isinstance(field.default, bool):
                continue
            if info.choices:
                yield settings, field.name, "nonsense", info.choices
                continue
            whole = isinstance(field.default, int)
            yield settings, field.name, NAN, ("finite",)
            yield settings, field.name, INF, ("finite",)
            if info.above is not None:
                yield settings, field.name, info.above, (f"greater than {info.above:g}",)
                yield settings, field.name, info.above - 1, (f"greater than {info.above:g}",)
            if info.minimum is not None:
                below = info.minimum - 1 if whole else info.minimum - 1e-3
                yield settings, field.name, below, (f"at least {info.minimum:g}",)
            assert info.maximum is not None, f"{field.name} has no upper limit"
            over = info.maximum + 1 if whole else 1.001 * info.maximum
            yield settings, field.name, over, (f"at most {info.maximum:g}",)


@pytest.mark.parametrize(
    ("settings", "name", "value", "allowed"),
    [pytest.param(*case, id=f"{case[0].__name__}-{case[1]}-{case[2]}") for case in bad_values()],
)
def test_a_value_beyond_a_limit_is_refused_with_what_is_allowed(settings, name, value, allowed):
    with pytest.raises(InvalidInput) as caught:
        settings(**{name: value})
    said = str(caught.value)
    assert said.startswith(f"{name} is ")
    assert (repr(value) if isinstance(value, str) else f"{value:g}") in said
    for word in allowed:
        assert word in said


@pytest.mark.parametrize("settings", [Directions, TrackSettings, FitSettings])
def test_defaults_and_limits_themselves_are_allowed(settings):
    settings()
    for field in dataclasses.fields(settings):
        info = param_info(field)
        if info is None:
            continue
        for value in (info.minimum, info.maximum, *(info.choices or ())):
            if value is not None:
                assert getattr(settings(**{field.name: value}), field.name) == value


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (TrackSettings, "step_mm", np.float32(0.0)),
        (TrackSettings, "step_mm", np.float32(NAN)),
        (TrackSettings, "max_steps", np.int64(0)),
        (Directions, "count", np.int32(0)),
        (TrackSettings, "step_mm", "0.5"),
        (TrackSettings, "step_mm", None),
        (Directions, "count", 2.5),
        (TrackSettings, "points_every", 1.5),
    ],
)
def test_numbers_of_numpy_are_checked_and_other_kinds_of_values_refused(settings, name, value):
    with pytest.raises(InvalidInput, match=name):
        settings(**{name: value})


def test_a_replaced_value_is_checked():
    with pytest.raises(InvalidInput, match="step_mm is 0 mm; it must be greater than 0 mm"):
        dataclasses.replace(TrackSettings(), step_mm=0.0)


def test_how_many_steps_and_points_a_ray_may_have():
    settings = TrackSettings(step_mm=0.5, max_length_mm=250)
    assert (settings.ray_steps, settings.ray_points) == (502, 503)
    assert dataclasses.replace(settings, max_steps=100).ray_steps == 100
    assert dataclasses.replace(settings, points_every=10).ray_points == 51
