"""What the panel tells about fibers: statistics of those that are shown and of all, and the numbers of picked ones."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.gui.results import Number
from napari_gpubio.tracts.model import Tractogram
from napari_gpubio.tracts.settings import StopReason

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
}
_DECIMALS = {"length_mm": 1, "riemannian_length_mm": 1, "mean_fa": 3, "alignment": 3, "alignment_fa": 3, "speed": 3}
_REASONS = {
    StopReason.VOLUME: "left the volume",
    StopReason.MASK: "left the mask",
    StopReason.FA: "FA fell below the limit",
    StopReason.STEPS: "reached the maximum number of steps",
    StopReason.LENGTH: "reached the maximum length",
    StopReason.CURVATURE: "curved too tightly",
    StopReason.DRIFT: "drifted too far",
    StopReason.INVALID: "reached an invalid tensor",
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
        rows.append(run(name=f"time on {device}", text=_seconds(parameters.get("seconds", 0.0)), unit="s"))
    return rows


def _statistics(group: str, per_fiber: Mapping[str, Array], which: npt.NDArray[np.bool_], count: str) -> list[Number]:
    row = functools.partial(Number, group=group)
    rows = [row(name="number", text=count)]
    lengths, fa, drift = (_finite(per_fiber, name, which) for name in ("length_mm", "mean_fa", "drift"))
    if len(lengths):
        spread = f"{lengths.mean():.1f} ± {lengths.std():.1f}"
        extremes = f"{lengths.min():.1f} – {lengths.max():.1f}"
        rows += [
            row(name="length, mean ± SD", text=spread, unit="mm"),
            row(name="length, median", text=f"{np.median(lengths):.1f}", unit="mm"),
            row(name="length, range", text=extremes, unit="mm"),
        ]
    if len(fa):
        rows.append(row(name="mean FA, mean ± SD", text=f"{fa.mean():.3f} ± {fa.std():.3f}"))
    if len(drift) and drift.max() > 0:
        rows += [
            row(name="drift of g(v, v), median", text=f"{np.median(drift):.1e}"),
            row(name="drift of g(v, v), 99th percentile", text=f"{np.percentile(drift, 99):.1e}"),
        ]
    return rows


def _finite(per_fiber: Mapping[str, Array], name: str, which: npt.NDArray[np.bool_]) -> Array:
    values = np.asarray(per_fiber.get(name, np.empty(0)), np.float64)
    values = values[which] if len(values) else values
    return values[np.isfinite(values)]


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 0.1 else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"


def picked_numbers(title: str, per_fiber: Mapping[str, Array], fiber: int) -> list[Number]:
    """Return the numbers of one fiber, under a title."""
    return [
        Number(group=title, name="ended", text=reason_text(int(values[fiber])))
        if name == "stop_reason"
        else Number(group=title, name=READABLE.get(name, name), text=_number_text(name, float(values[fiber])))
        for name, values in per_fiber.items()
    ]


def reason_text(code: int) -> str:
    """Why a fiber ended, in words; the number of another program's reason."""
    return _REASONS[StopReason(code)] if code in list(StopReason) else f"{code}"


def _number_text(name: str, value: float) -> str:
    return f"{value:.{_DECIMALS[name]}f}" if name in _DECIMALS else f"{value:.3g}"


def notes_text(notes: Iterable[str]) -> str:
    """Join notes of a reader or a run, each as a sentence with a capital letter and a full stop."""
    return " ".join(note[:1].upper() + note[1:].rstrip(".") + "." for note in notes if note)
