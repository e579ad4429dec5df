"""Parameters that carry their label, unit and limits."""

import dataclasses

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import (
    applies,
    check_params,
    check_unused,
    param,
    param_info,
    replaced,
    without_effect,
)
from napari_gpubio.light.forward.settings import ForwardSettings
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.tracts.routes.settings import ConnectSettings
from napari_gpubio.tracts.tensors.settings import FitSettings


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


OTHERWISE = "; leave it out, or choose kind 'electric'; or grill True"

# -- settings without effect ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Oven:
    kind: str = param("gas", "Kind", "Which one.", choices=("gas", "electric", "solar"))
    grill: bool = param(False, "Grill", "Heat from above.", where={"kind": ("gas", "electric")})
    heat_c: float = param(200.0, "Heat", "Of the grill.", unit="°C", where={"grill": (True,)})
    fan: int = param(0, "Fan", "Speed.", where=({"kind": ("electric",)}, {"grill": (True,)}))

    def __post_init__(self) -> None:
        check_params(self)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"heat_c": 250},
            "heat_c is 250 °C, which has no effect with grill False; leave it out, or choose grill True",
        ),
        (
            {"kind": "solar", "grill": True},
            "grill is True, which has no effect with kind 'solar'; leave it out, or choose kind 'gas', 'electric'",
        ),
        (
            {"fan": 2},
            f"fan is 2, which has no effect with kind 'gas' and grill False{OTHERWISE}",
        ),
    ],
)
def test_what_has_no_effect_is_refused_with_what_it_is_for(values, sentence):
    with pytest.raises(InvalidInput) as caught:
        Oven(**values)
    assert str(caught.value) == sentence


def test_what_has_an_effect_is_taken():
    Oven(kind="solar", heat_c=200.0, fan=0)  # the defaults say nothing
    Oven(grill=True, heat_c=250.0, fan=3)
    Oven(kind="electric", fan=3)


def test_other_values_bring_the_defaults_of_what_they_leave_without_effect():
    hot = Oven(kind="electric", grill=True, heat_c=250.0, fan=3)
    assert replaced(hot, kind="solar") == Oven(kind="solar")
    assert replaced(hot, grill=False) == Oven(kind="electric", fan=3)
    assert without_effect(hot, kind="solar") == ("grill", "heat_c", "fan")
    with pytest.raises(InvalidInput, match="fan is 2, which has no effect with kind 'solar'"):
        replaced(hot, kind="solar", fan=2)


def test_a_run_refuses_what_it_has_no_use_for():
    check_unused(Oven(), ["heat_c", "fan"], "it is cold")
    with pytest.raises(InvalidInput) as caught:
        check_unused(Oven(kind="electric", fan=3), ["heat_c", "fan"], "it is cold")
    assert str(caught.value) == "fan is 3, which has no effect: it is cold; leave it out"


@pytest.mark.parametrize(
    "kind",
    [
        ConnectSettings, FitSettings, ForwardSettings, LayeredSettings,
    ],
)  # fmt: skip
def test_no_alternative_takes_settings_of_another(kind):
    """For each choice and each switch, what is for others is refused if it is not the default."""
    fields = {f.name: f for f in dataclasses.fields(kind) if param_info(f) is not None}
    ruling = {name for f in fields.values() for condition in param_info(f).where for name in condition}
    assert ruling <= set(fields)
    refused = 0
    for ruler in ruling:
        is_switch = isinstance(fields[ruler].default, bool)
        for choice in param_info(fields[ruler]).choices or ((True, False) if is_switch else (0.0, 1.0)):
            settings = replaced(kind(), **{ruler: choice})
            for name in without_effect(settings):
                with pytest.raises(InvalidInput, match=f"^{name} is .*, which has no effect with "):
                    dataclasses.replace(settings, **{name: other_than(fields[name])})
                refused += 1
            assert all(applies(settings, name) for name in set(fields) - set(without_effect(settings)))
    assert refused


def other_than(field):
    """A value that is allowed and not the default."""
    info = param_info(field)
    if info.choices:
        return next(choice for choice in info.choices if choice != field.default)
    if isinstance(field.default, bool):
        return not field.default
    step = info.step or 1 if isinstance(field.default, int) else info.step or field.default / 2 or 1.0
    nearby = (field.default + step, field.default - step)
    return next(value for value in nearby if value <= (info.maximum or 1e9))
