"""Changes to bytes, texts and JSON that make mutants of a valid file; the same for the same random numbers."""

import copy
import json
import re
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Mutate = Callable[[bytes, Random], bytes]
_HEAD = 1024  # bytes at the beginning, where most formats have their header
_LONG = "9" * 5000
_DEEP = 100_000
_INTEGERS = (0, 1, -1, 2, 3, 127, 128, 255, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63)
_FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e-45, 1e38, 1e308)
NUMBERS = (
    "nan", "inf", "-inf", "1e400", "-1e400", "1e38", "1e308", "-1", "0", "-0", "1e-400", "2147483648", "65536", "1e12",
    "18446744073709551616", "0x10", "1_000", "1,5", "١", "", "--1", "1e", _LONG, f"-{_LONG}", f"1e{_LONG}",
)  # fmt: skip
_WORDS = ("x", "", "None", "null", "true", "\0", "é", "\ufeff", "a" * 5000, "..", "../../x", "/etc/passwd", "C:\\x",
          "%s", "{0}",
          '"', "'", "[", "]", "{", "}", "#", ";", "\t", "\r", "\x1b[0m", "\u2028", "\U0001f9e0")  # fmt: skip
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[^\W\d_]\w*")


# -- bytes ------------------------------------------------------------------------------------------------------------


def change_bytes(data: bytes, random: Random) -> bytes:
    """One to three changes anywhere, half of them near the beginning."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = random.choice(_BYTES)(data, random)
    return data


def _place(data: bytes, random: Random) -> int:
    return random.randrange(max(1, min(len(data), _HEAD) if random.random() < 0.5 else len(data)))


def _put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def _flip(data: bytes, random: Random) -> bytes:
    for _ in range(random.randint(1, 8)):
        at = _place(data, random)
        data = _put(data, at, bytes([data[at] ^ (1 << random.randrange(8))])) if data else data
    return data


def _random_byte(data: bytes, random: Random) -> bytes:
    return _put(data, _place(data, random), random.randbytes(1))


def _integer(data: bytes, random: Random) -> bytes:
    size, order = random.choice((1, 2, 4, 8)), random.choice(("little", "big"))
    at = _place(data, random)
    if random.random() < 0.7:
        at -= at % size
    value = random.choice(_INTEGERS) % 2 ** (8 * size)
    return _put(data, at, value.to_bytes(size, "big" if order == "big" else "little"))


def _float(data: bytes, random: Random) -> bytes:
    kind = random.choice("fd")
    value = random.choice(_FLOATS[:-1] if kind == "f" else _FLOATS)
    at = _place(data, random)
    return _put(data, at - at % 4, struct.pack(random.choice("<>") + kind, value))


def _truncate(data: bytes, random: Random) -> bytes:
    return data[: _place(data, random)]


def _span(data: bytes, random: Random) -> tuple[int, int]:
    at = _place(data, random)
    return at, min(len(data), at + random.choice((1, 2, 4, 16, 100, 1000)))


def _drop(data: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:begin] + data[end:]


def _repeat(data: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:end] + data[begin:end] * random.choice((1, 1, 2, 50)) + data[end:]


def _splice(data: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return _put(data, _place(data, random), data[begin:end])


def _blank(data: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return _put(data, begin, random.choice((b"\0", b"\xff", b" ")) * (end - begin))


def _insert(data: bytes, random: Random) -> bytes:
    at = _place(data, random)
    return data[:at] + random.randbytes(random.choice((1, 2, 8, 64))) + data[at:]


_BYTES: tuple[Mutate, ...] = (
    _flip, _flip, _random_byte, _integer, _integer, _integer, _float, _truncate, _drop, _repeat, _splice, _blank,
    _insert,
)  # fmt: skip


# -- texts ------------------------------------------------------------------------------------------------------------


def change_text(data: bytes, random: Random) -> bytes:
    """One to three changes to numbers, words or lines; one of five is a change to bytes."""
    if random.random() < 0.2:
        return change_bytes(data, random)
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        text = random.choice(_TEXTS)(text, random)
    return text.encode("utf-8", "surrogateescape")


def _replace(text: str, pattern: re.Pattern[str], new: tuple[str, ...], random: Random) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    return text[: match.start()] + random.choice(new) + text[match.end() :]


def _number(text: str, random: Random) -> str:
    return _replace(text, _NUMBER, NUMBERS, random)


def _word(text: str, random: Random) -> str:
    return _replace(text, _WORD, (*_WORDS, *NUMBERS[:6]), random)


def _same_word(text: str, random: Random) -> str:
    words = tuple(match[0] for match in _WORD.finditer(text))
    return _replace(text, _WORD, words, random) if words else text


def _lines(text: str, random: Random) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    what = random.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines[at:at] = [lines[at]] * random.choice((1, 1, 100))
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 3:
        lines[at] = lines[at].rstrip("\r\n")
    else:
        lines.insert(at, random.choice(("\n", "\r\n", "# x\n", "x\n", ",,,\n", "1 2 3\n")))
    return "".join(lines)


def _sign(text: str, random: Random) -> str:
    return _replace(text, re.compile(r"[^\w\s]"), ("", ",", ";", ":", '"', "=", "<", ">", "(", ")", ".", "-"), random)


def _insert_text(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    new = random.choice((*_WORDS, " " * 20_000, "\n" * 1000, "(" * 5000, "[" * 5000, '"' * 99, "9" * 5000, "\r"))
    return text[:at] + new + text[at:]


def _cut(text: str, random: Random) -> str:
    return text[: random.randrange(len(text) + 1)]


_TEXTS = (_number, _number, _number, _word, _same_word, _lines, _lines, _sign, _insert_text, _cut)


# -- JSON -------------------------------------------------------------------------------------------------------------

_RAW = {
    "@long@": _LONG,
    "@huge@": "1e400",
    "@deep@": "[" * _DEEP + "]" * _DEEP,
    "@objects@": '{"a":' * 999 + "1" + "}" * 999,
}
_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-300, 1e300, float("nan"), float("inf"), 2**31, 2**63, 2**64, "", "x",
    "\0", "_NaN_", "_Inf_", "../..", "/etc/passwd", "a" * 5000, "1", "nan", "Infinity", "\ud800", [], [0], [1, 2, 3],
    [[1, 2], [3]], ["a"], [None], [[]], [[[[]]]], {}, {"a": 1}, [{}], [float("nan")] * 3, [10**9] * 3, [10**30],
    list(range(500)), *_RAW,
)  # fmt: skip


def change_json(data: bytes, random: Random) -> bytes:
    """One to three values, keys or items changed; one of five is a change to the text."""
    if random.random() < 0.2:
        return change_text(data, random)
    try:
        root = [json.loads(data)]
    except ValueError:
        return change_text(data, random)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _change_value(root, random)
    text = json.dumps(root[0] if root else None)
    for mark, raw in _RAW.items():
        text = text.replace(f'"{mark}"', raw)
    return text.encode()


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a tree of lists and dictionaries with each of its keys."""
    items = list(node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ())
    for key, value in items:
        yield node, key
        yield from places(value)


def _change_value(root: list[Any], random: Random) -> None:
    found = list(places(root))
    if not found:
        return
    node, key = random.choice(found)
    what = random.randrange(8)
    if what == 0:
        del node[key]
    elif what == 1:
        node[key] = [node[key]]
    elif what == 2 and isinstance(node[key], list | str):
        node[key] = node[key] * random.choice((0, 2, 100))
    elif what == 3 and isinstance(node, dict):
        node[f"{key}{random.choice(('', '_', ' ', 'x'))}"] = node.pop(key)
    elif what == 4:
        other, at = random.choice(found)
        if (isinstance(other, dict) and at in other) or (
            isinstance(other, list) and isinstance(at, int) and at < len(other)
        ):
            node[key] = copy.deepcopy(other[at])
    else:
        node[key] = copy.deepcopy(random.choice(_ODD))
