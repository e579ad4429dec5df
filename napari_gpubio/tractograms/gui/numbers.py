"""What the panel tells about fibers: statistics of those that are shown and of all, and the numbers of picked ones."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.numbers import seconds_text, short_number
from napari_gpubio.gui.number_table import Number
from napari_gpubio.tractograms.model import StopReason, Tractogram

Array = npt.NDArray[Any]
READABLE = {
    "direction": "direction",
    "uniform": "single color",
    "length_mm": "length (mm)",
    "riemannian_length_mm": "Riemannian length (mm)",
    "drift": "drift of g(v, v)",
    "mean_fa": "mean FA",
    "alignment": "alignment with V1",
    "alignment_fa": "alignment × FA",
    "speed": "Euclidean / Riemannian length",
    "stop_reason": "stop reason",
    "fa": "FA along the fiber",
    "mean_fod": "mean FOD",
    "fod": "FOD along the fiber",
    "mean_amplitude": "mean amplitude",
    "amplitude": "amplitude along the fiber",
}
_DECIMALS = {
    **dict.fromkeys(("length_mm", "riemannian_length_mm"), 1),
    **dict.fromkeys(("mean_fa", "mean_fod", "mean_amplitude", "alignment", "alignment_fa", "speed"), 3),
}
_REASONS = {
    StopReason.VOLUME: "left the volume",
    StopReason.MASK: "left the mask",
    StopReason.FA: "FA fell below the limit",
    StopReason.STEPS: "reached the maximum number of steps",
    StopReason.LENGTH: "reached the maximum length",
    StopReason.CURVATURE: "curved too tightly",
    StopReason.DRIFT: "drifted too far",
    StopReason.INVALID: "reached an invalid tensor",
    StopReason.TARGET: "reached the target",
    StopReason.FOD: "FOD or fixel fell below the limit",
}


def fiber_numbers(fibers: Tractogram, per_fiber: Mapping[str, Array], shown: npt.NDArray[np.bool_]) -> list[Number]:
    """Return the statistics of the fibers that are shown and of all, and what the run took.

    Parameters
    ----------
    fibers
        All fibers.
    per_fiber
        Their numbers, shape (F,), ``length_mm`` among them if there are any fibers.
    shown
        Which are shown, shape (F,).
    """
    parameters, count = fibers.parameters, len(fibers)
    launched = parameters.get("launched")
    if shown.all():
        rows = _statistics("Fibers (all are shown)", per_fiber, shown, f"{count:,}")
    else:
        rows = _statistics("Shown fibers", per_fiber, shown, f"{np.count_nonzero(shown):,} of {count:,}")
        rows += _statistics("All fibers", per_fiber, np.ones(count, bool), f"{count:,}")
    run = functools.partial(Number, group="Run")
    if launched is not None:
        tip = "Fibers kept of those launched; those shorter than the minimum length are discarded"
        rows.append(run(name="kept", text=f"{count:,} of {launched:,}", note=tip))
    if parameters.get("device"):
        device = str(parameters["device"]).split(" (")[0].replace("cpu", "the CPU")
        seconds = seconds_text(parameters.get("seconds", 0.0)).removesuffix(" s")
        rows.append(run(name=f"time on {device}", text=seconds, unit="s"))
    return rows


def _statistics(group: str, per_fiber: Mapping[str, Array], which: npt.NDArray[np.bool_], count: str) -> list[Number]:
    row = functools.partial(Number, group=group)
    rows = [row(name="number", text=count)]
    lengths, drift = (_finite(per_fiber, name, which) for name in ("length_mm", "drift"))
    if len(lengths):
        low, middle, high = (value_text("length_mm", at(lengths)) for at in (np.min, np.median, np.max))
        rows += [
            row(name="length, mean ± SD", text=_spread_text("length_mm", lengths), unit="mm"),
            row(name="length, median", text=middle, unit="mm"),
            row(name="length, range", text=f"{low} – {high}", unit="mm"),
        ]
    for name in ("mean_fa", "mean_fod", "mean_amplitude"):
        if len(values := _finite(per_fiber, name, which)):
            rows.append(row(name=f"{READABLE[name]}, mean ± SD", text=_spread_text(name, values)))
    if len(drift) and drift.max() > 0:
        rows += [
            row(name="drift of g(v, v), median", text=value_text("drift", np.median(drift))),
            row(name="drift of g(v, v), 99th percentile", text=value_text("drift", np.percentile(drift, 99))),
        ]
    return rows


def _finite(per_fiber: Mapping[str, Array], name: str, which: npt.NDArray[np.bool_]) -> Array:
    values = np.asarray(per_fiber.get(name, np.empty(0)), np.float64)
    values = values[which] if len(values) else values
    return values[np.isfinite(values)]


def picked_numbers(title: str, per_fiber: Mapping[str, Array], fiber: int) -> list[Number]:
    """Return the numbers of one fiber, under a title."""
    return [
        Number(group=title, name="ended", text=reason_text(int(values[fiber])))
        if name == "stop_reason"
        else Number(group=title, name=READABLE.get(name, name), text=value_text(name, float(values[fiber])))
        for name, values in per_fiber.items()
    ]


def reason_text(code: int) -> str:
    """Why a fiber ended, in words; the number of another program's reason."""
    return _REASONS[StopReason(code)] if code in list(StopReason) else f"{code}"


def value_text(name: str, value: float) -> str:
    """A number to a tenth of a millimeter or a thousandth, or in three figures if it is of another kind."""
    if name not in _DECIMALS or not np.isfinite(value):
        return short_number(float(value), 2 if name == "drift" else 3)
    return f"{value:,.{_DECIMALS[name]}f}"


def _spread_text(name: str, values: Array) -> str:
    """Mean ± standard deviation; the mean alone where there is no spread that would be seen."""
    mean, spread = float(values.mean()), float(values.std())
    shown = 0.5 * 10.0 ** -_DECIMALS[name]
    text = value_text(name, mean)
    return f"{text} ± {value_text(name, spread)}" if spread >= shown else text
