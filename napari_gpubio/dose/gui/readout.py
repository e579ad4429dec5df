"""What is said of a place on the plot: sentences for the read-out. It knows no Qt."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from napari_gpubio.dose.gui.axes import Axes
from napari_gpubio.dose.metrics.curve import Dvh

MOST_LINES = 12


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Shown:
    """A curve on screen: the histogram as it is scaled, its color, and whether it is of the second plan."""

    dvh: Dvh
    color: str
    second: bool = False

    @property
    def title(self) -> str:
        """Name, and the plan where it is the second."""
        return f"{self.dvh.name} (2nd plan)" if self.second else self.dvh.name


def dose_words(dose: float, axes: Axes) -> str:
    """A dose with its unit, and in % of the prescription where there is one."""
    percent = f" ({100 * dose / axes.reference:.3g} %)" if axes.reference else ""
    return f"{short(dose)} {axes.unit}{percent}"


def above_text(curves: Sequence[Shown], dose: float, axes: Axes) -> str:
    """V_x: what of each structure receives at least a dose."""
    return _lines(f"at least {dose_words(dose, axes)}", [(one, *_above(one.dvh, dose)) for one in curves])


def between_text(curves: Sequence[Shown], low: float, high: float, axes: Axes) -> str:
    """V_[low, high]: what of each structure receives a dose in an interval."""
    rows = [(one, one.dvh.band_volume(low, high), one.dvh.volume_cc) for one in curves]
    return _lines(
        f"{dose_words(low, axes)} to {dose_words(high, axes)}",
        [(one, 100 * volume / whole if whole else math.nan, volume) for one, volume, whole in rows],
    )


def at_volume_text(curves: Sequence[Shown], volume: float, axes: Axes) -> str:
    """D_x: what dose a volume (in % or cc, as the axis) of each structure receives at least."""
    parts = []
    for one in curves:
        dose = float(one.dvh.dose_at_percent(volume) if axes.relative_volume else one.dvh.dose_at(volume))
        told = dose_words(dose, axes) if math.isfinite(dose) else "smaller than that"
        parts.append(_part(one, told))
    return _listed(f"D at {short(volume)} {axes.volume_unit}", parts)


def hover_text(curve: Shown, dose: float, axes: Axes) -> str:
    """The curve under the mouse."""
    percent, volume = _above(curve.dvh, dose)
    return _part(curve, f"{short(percent)} % = {short(volume)} cc") + f" get ≥ {html.escape(dose_words(dose, axes))}"


def voxel_text(curves: Sequence[Shown], dose: float, inside: Sequence[str], axes: Axes) -> str:
    """A voxel that was clicked: its dose, and how much of the structures it lies in gets more."""
    mine = [one for one in curves if one.dvh.name in inside]
    where = "voxel in no structure" if not inside else f"voxel in {', '.join(inside)}"
    rows = [(one, *_above(one.dvh, dose)) for one in mine]
    return _lines(f"{where}: {dose_words(dose, axes)}; as much or more get", rows)


def _above(dvh: Dvh, dose: float) -> tuple[float, float]:
    return float(dvh.percent_at(dose)), float(dvh.volume_at(dose))


def short(value: float) -> str:
    """A number in four digits, or more before the point."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def _lines(title: str, rows: Sequence[tuple[Shown, float, float]]) -> str:
    """Shares and volumes; structures with none of it are not worth a line."""
    told = [_part(one, f"{short(percent)} % = {short(volume)} cc") for one, percent, volume in rows if volume > 0]
    return _listed(title, told or ["nothing"])


def _listed(title: str, parts: Sequence[str]) -> str:
    more = [f"… and {len(parts) - MOST_LINES} more"] if len(parts) > MOST_LINES else []
    return f"<b>{html.escape(title)}</b>: {' &nbsp;'.join([*parts[:MOST_LINES], *more])}"


def _part(one: Shown, text: str) -> str:
    """What is said of one structure, kept on one line."""
    told = html.escape(f"{one.title} {text}").replace(" ", "&nbsp;")
    return f'<span style="color:{one.color}">●</span>&nbsp;{told}'
