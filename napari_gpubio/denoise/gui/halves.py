"""Names of the two halves of a run: which layer is the other half of one, and what both are called together."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Words that tell the halves apart, in their order.
_HALVES = (("a", "b"), ("even", "odd"), ("first", "second"), ("1", "2"), ("0", "1"))


class _Pair(NamedTuple):
    """Names of two halves, the first of which is known, and of both."""

    other: str
    both: str


def other_half(name: str, names: Iterable[str]) -> str | None:
    """Return the one of several names that differs from a name only in the word for a half.

    Examples
    --------
    >>> other_half("fluence even, log10", ["truth", "fluence odd, log10"])
    'fluence odd, log10'
    """
    known = set(names)
    return next((pair.other for pair in _pairs(name) if pair.other in known), None)


def both_halves(name: str, other: str) -> str:
    """Return what two halves are called together.

    Examples
    --------
    >>> both_halves("fluence odd, log10", "fluence even, log10")
    'fluence even + odd, log10'
    """
    return next((pair.both for pair in _pairs(name) if pair.other == other), f"{name} + {other}")


def _pairs(name: str) -> Iterator[_Pair]:
    """Every way in which a word of a name may stand for a half."""
    for halves in _HALVES:
        for number, word in enumerate(halves):
            for found in re.finditer(rf"(?<![^\W_]){word}(?![^\W_])", name, re.IGNORECASE):
                before, after = name[: found.start()], name[found.end() :]
                own, counterpart = found.group(), _in_case_of(found.group(), halves[1 - number])
                first, second = (own, counterpart) if number == 0 else (counterpart, own)
                yield _Pair(f"{before}{counterpart}{after}", f"{before}{first} + {second}{after}")


def _in_case_of(model: str, word: str) -> str:
    if model.isupper():
        return word.upper()
    return word.capitalize() if model[0].isupper() else word
