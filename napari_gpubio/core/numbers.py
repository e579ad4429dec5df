"""Numbers as people read them: with the digits that are known, thousands apart, and no zeros to fill up."""

import math
from collections.abc import Iterable

NO_NUMBER = "–"
_FEWEST_FIGURES, MAX_FIGURES = 2, 4  # of a number whose error is not shown beside it
_ROUNDING = 1e-9  # a share of a number: what is less is no error
_MAX_DECIMALS = 6  # beyond, a power of ten is shorter
_GIB, _MIB = 2**30, 2**20


def number_text(value: float, error: float = math.nan) -> str:
    """Write a number as far as its standard error lets it be known.

    The error gets one digit, or two if it begins with 1; a number without an error gets four.

    Examples
    --------
    >>> number_text(0.176912, 0.00041)
    '0.1769 ± 0.0004'
    >>> number_text(3.21e-05, 4.2e-07), number_text(0.0243728775, 5e-19)
    ('(3.21 ± 0.04)e-05', '0.02437')
    """
    if not math.isfinite(value):
        return NO_NUMBER
    if not (math.isfinite(error) and error > _ROUNDING * abs(value)):
        return short_number(value)
    size = _exponent(max(abs(value), error))
    shift = size if not -3 <= size <= 5 or _decimals_of(error) > _MAX_DECIMALS else 0
    value, error = value / 10.0**shift, error / 10.0**shift
    decimals = _decimals_of(error)
    both = f"{value:,.{decimals}f} ± {error:,.{decimals}f}"
    return f"({both})e{shift:+03d}" if shift else both


def short_number(value: float, figures: int = MAX_FIGURES) -> str:
    """Write a number in some figures, or more in front of the point.

    Examples
    --------
    >>> short_number(12889.6), short_number(0.000123456), short_number(2.50), short_number(math.nan)
    ('12,890', '0.0001235', '2.5', '–')
    """
    if not math.isfinite(value):
        return NO_NUMBER
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{int(value):,}"
    rounded = f"{value:.{figures}g}"
    return f"{value:,.0f}" if 10 ** min(figures, 3) <= abs(float(rounded)) < 1e7 else rounded


def figures_of(share: float) -> int:
    """How many figures count of a number that is known up to a share of it."""
    if share <= 0:
        return MAX_FIGURES
    return min(max(math.floor(-math.log10(share)) + 1, _FEWEST_FIGURES), MAX_FIGURES)


def difference_text(change: float, *ends: tuple[float, int]) -> str:
    """Write the difference of two numbers with its sign, to the last digit of the one with fewer.

    Each end is a number and how many of its figures count.

    Examples
    --------
    >>> difference_text(0.5678, (50.12345, 4), (50.69125, 3)), difference_text(0.012, (50.1, 3), (50.112, 4))
    ('+0.6', '0')
    """
    if not math.isfinite(change):
        return NO_NUMBER
    last = max((_exponent(end) - figures + 1 for end, figures in ends if end), default=_exponent(change))
    if abs(change) < 0.5 * 10.0**last:
        return "0"
    text = short_number(change, max(1, _exponent(change) - last + 1))
    return text if change < 0 else f"+{text}"


def position_text(position_mm: Iterable[float]) -> str:
    """Write a position to a tenth of a millimeter; what rounding leaves of a zero has no sign."""
    return f"({', '.join(f'{round(float(part), 1) + 0.0:g}' for part in position_mm)}) mm"


def seconds_text(seconds: float) -> str:
    """Write how long something took."""
    return f"{seconds:.3f} s" if seconds < 0.1 else f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def memory_text(count: float) -> str:
    """Write an amount of memory that is given in bytes."""
    return f"{count / _GIB:.1f} GB" if count >= _GIB else f"{max(1.0, count / _MIB):.0f} MB"


def _decimals_of(error: float) -> int:
    """Digits behind the point that an error of this size lets be known."""
    rounded = f"{error:.0e}"
    return max(0, int(rounded.startswith("1")) - int(rounded.split("e")[1]))


def _exponent(value: float) -> int:
    """Power of ten of the first digit."""
    return int(f"{value:e}".split("e")[1])
