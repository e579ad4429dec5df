"""The dose axis: numbers, or what decimal logarithms stand for."""

import math

import pyqtgraph

_PIXELS_PER_LABEL = 34.0
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN_DECADES = (-2, 3)  # that are written in full


class DoseAxis(pyqtgraph.AxisItem):
    """A horizontal axis; where it is ``logarithmic`` its places are decimal logarithms."""

    logarithmic = False

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        """pyqtgraph: where the ticks are, at each level."""
        if not self.logarithmic:
            return list(super().tickValues(low, high, size))
        every = max(1, math.ceil((high - low) * _PIXELS_PER_LABEL / max(size, 1.0)))
        decades = [float(d) for d in range(math.ceil(low), math.floor(high) + 1) if d % every == 0]
        between = [d + math.log10(m) for d in range(math.floor(low), math.ceil(high)) for m in range(2, 10)]
        return [(1.0, decades), (0.1, [at for at in between if every == 1 and low <= at <= high])]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """pyqtgraph: what is written at the ticks of one level; between decades only where few are in sight."""
        if not self.logarithmic:
            return list(super().tickStrings(values, scale, spacing))
        low, high = self.range
        told = () if spacing >= 1 else (2, 5) if high - low < 2.5 else ()
        return [_number(at) if spacing >= 1 or round(10 ** (at % 1)) in told else "" for at in values]


def _number(at: float) -> str:
    """A number given as its logarithm."""
    decade = math.floor(at + 1e-9)
    if _PLAIN_DECADES[0] <= decade <= _PLAIN_DECADES[1]:
        return f"{10**at:.3g}" if decade < 3 else f"{10**at:.0f}"
    front = round(10 ** (at - decade))
    power = f"10{str(decade).translate(_SUPERSCRIPT)}"
    return power if front == 1 else f"{front}·{power}"
