"""Parameters that carry their label, unit and limits."""

import dataclasses

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import (
    check_params,
    check_unused,
    param,
    param_info,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    step_mm: float = param(1.0, "Step", "How far a step goes.", unit="mm", above=0.0, maximum=10.0)
    rays: int = param(5, "Rays", "How many.", minimum=1)
    mode: str = param("fast", "Mode", "Which way.", choices=["fast", "exact"])
    exact: bool = param(False, "Exact", "Whether.", minimum=5)
    limit: float | None = param(None, "Limit", "May be absent.", minimum=0.0)
    plain: float = float("nan")

    def __post_init__(self) -> None:
        check_params(self)


def test_what_a_form_needs_is_on_the_field():
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    info = param_info(fields["step_mm"])
    assert (info.label, info.help, info.unit, info.above, info.maximum) == (
        "Step",
        "How far a step goes.",
        "mm",
        0.0,
        10.0,
    )
    assert param_info(fields["mode"]).choices == ("fast", "exact")
    assert param_info(fields["plain"]) is None


def test_defaults_and_limits_are_allowed():
    Settings()
    Settings(step_mm=10.0, rays=1, mode="exact", limit=0.0)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"step_mm": 0.0}, "step_mm is 0 mm; it must be greater than 0 mm"),
        ({"step_mm": -1}, "step_mm is -1 mm; it must be greater than 0 mm"),
        ({"step_mm": 10.5}, "step_mm is 10.5 mm; it must be at most 10 mm"),
        ({"step_mm": float("nan")}, "step_mm is nan; give a finite number in mm"),
        ({"step_mm": float("inf")}, "step_mm is inf; give a finite number in mm"),
        ({"rays": 0}, "rays is 0; it must be at least 1"),
        ({"limit": -0.5}, "limit is -0.5; it must be at least 0"),
        ({"mode": "slow"}, "mode is 'slow'; choose one of 'fast', 'exact'"),
    ],
)
def test_what_is_not_allowed_is_said_with_its_value(values, sentence):
    with pytest.raises(InvalidInput) as caught:
        Settings(**values)
    assert str(caught.value) == sentence


def test_a_run_refuses_what_it_has_no_use_for():
    check_unused(Settings(), ["step_mm", "rays"], "it is cold")
    with pytest.raises(InvalidInput) as caught:
        check_unused(Settings(rays=3), ["step_mm", "rays"], "it is cold")
    assert str(caught.value) == "rays is 3, which has no effect: it is cold; leave it out"
