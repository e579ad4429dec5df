"""Numbers as a person reads them."""

import math

MOST_DIGITS = 6  # behind the point; beyond, a power of ten is shorter


def number_text(value: float, error: float = math.nan) -> str:
    """Write a number as far as its standard error lets it be known.

    The error gets one digit, or two if it begins with 1; a number without an error gets four.

    Examples
    --------
    >>> number_text(0.176912, 0.00041)
    '0.1769 ± 0.0004'
    >>> number_text(3.21e-05, 4.2e-07)
    '(3.21 ± 0.04)e-05'
    """
    if not math.isfinite(value):
        return "–"
    if not (math.isfinite(error) and error > 0):
        return _plain(value)
    size = _exponent(max(abs(value), error))
    shift = size if not -3 <= size <= 5 or _digits(error) > MOST_DIGITS else 0
    value, error = value / 10.0**shift, error / 10.0**shift
    both = f"{value:,.{_digits(error)}f} ± {error:,.{_digits(error)}f}"
    return f"({both})e{shift:+03d}" if shift else both


def _digits(error: float) -> int:
    """Digits behind the point that an error of this size lets be known."""
    rounded = f"{error:.0e}"
    return max(0, int(rounded.startswith("1")) - int(rounded.split("e")[1]))


def _plain(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.4g}"


def _exponent(value: float) -> int:
    """Power of ten of the first digit."""
    return int(f"{value:e}".split("e")[1])
