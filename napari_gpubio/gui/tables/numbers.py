"""Numbers as they are typed into cells and shown there, in a unit of the user's choice. It knows no Qt.

Decimal arithmetic, so that 0.7 typed per cm is 0.07 per mm, and not 0.06999999999999999.
"""

import math
from decimal import Decimal

Cell = float | str | None  # a number, a text that is no number, or nothing yet


def typed_number(text: str, factor: Decimal | int = 1) -> Cell:
    """Return the number that a text stands for, or the text where it is none.

    Parameters
    ----------
    text
        What was typed; a comma is a point, because many keyboards have none.
    factor
        How many of the unit in which it was typed make the unit in which numbers are kept.
    """
    if not text:
        return None
    try:
        number = Decimal(text.replace(",", ".").replace("−", "-"))
        return float(number / factor if number.is_finite() else number)
    except (ArithmeticError, ValueError):  # a number beyond all exponents is none either
        return text


def shown_number(value: float, factor: Decimal | int = 1) -> float:
    """Return a number in the unit that is shown; ``factor`` as of `typed_number`."""
    return float(Decimal(repr(value)) * factor) if math.isfinite(value) else value
