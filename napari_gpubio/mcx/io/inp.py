"""MCX's older input files (``.inp``): lines of numbers, turned into the sections that its JSON files have."""

from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_bytes
from napari_gpubio.mcx.io.domain import MAX_ROWS

_MAX_BYTES = 1 << 20
_AXES = ("x", "y", "z")
_OUTSIDE = {"mua": 0.0, "mus": 0.0, "g": 1.0, "n": 1.0}  # of label 0, which these files do not name


def load_inp(path: str | Path) -> dict[str, Any]:
    """Load an input file of lines as the object that MCX's JSON files hold.

    In this order: photons; seed; position of the source, and 1 if positions count from 0; its direction, and a focus;
    start, end and width of the time gates, s; the volume's file; for each axis the edge of a voxel, mm, and the number
    of voxels; the number of media, and for each of them mu_s, g, mu_a (1/mm) and n; number and radius of the detectors,
    and for each its position, and a radius of its own; and, where there is one, the source's kind and its two rows of
    parameters. What follows the numbers of a line is a comment.

    Raises
    ------
    InvalidInput
        If the file is missing, too long or not text, or a line lacks numbers.
    """
    file = Path(path)
    try:
        lines = _Lines(existing_bytes(file, _MAX_BYTES).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file.name} is not text; an MCX input file of lines (.inp) is needed") from error
    session = {"ID": file.stem, "Photons": lines.whole("the number of photons"), "RNGSeed": lines.whole("the seed")}
    position = lines.numbers("the position of the source", 3, 4)
    direction = lines.numbers("the direction of the source", 3, 4)
    start, stop, width = lines.numbers("the time gates (start, end, width)", 3)
    domain = _domain(lines, from_zero=bool(position[3:]) and position[3] != 0)
    detectors = _detectors(lines)
    return {
        "Session": session,
        "Forward": {"T0": start, "T1": stop, "Dt": width},
        "Domain": domain,
        "Optode": {"Source": {"Pos": position[:3], "Dir": direction} | _kind(lines), "Detector": detectors},
    }


def begins_like_inp(path: Path) -> bool:
    """Whether a file begins with two numbers and a position, a line each; meshes have files of that name, too."""
    with path.open("rb") as file:
        lines = file.read(1000).decode("utf-8-sig", errors="replace").splitlines()[:3]
    return [min(len(_leading_numbers(line, 3)), most) for line, most in zip(lines, (1, 1, 3), strict=False)] == [
        1,
        1,
        3,
    ]


class _Lines:
    """The lines of a file that are not empty, one after another."""

    def __init__(self, text: str) -> None:
        stripped = ((number, line.split("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
        self._left = ((number, line) for number, line in stripped if line)

    def next(self) -> tuple[int, str] | None:
        """Number and text of the next line, without what follows a #; None at the end."""
        return next(self._left, None)

    def text(self, what: str) -> str:
        """The first word of the next line."""
        return self._line(what)[1].split()[0]

    def whole(self, what: str) -> int:
        """The integer that begins the next line; 1e6 is one."""
        number, text = self._line(what)
        found = _leading_numbers(text, 1)
        if not found or not found[0].is_integer():
            raise _lacking(number, text, what, "an integer")
        return int(found[0])

    def numbers(self, what: str, least: int, most: int | None = None) -> list[float]:
        """The numbers that begin the next line, at most so many."""
        number, text = self._line(what)
        found = _leading_numbers(text, most or least)
        if len(found) < least:
            raise _lacking(number, text, what, f"{least} numbers")
        return found

    def _line(self, what: str) -> tuple[int, str]:
        if (line := self.next()) is None:
            raise InvalidInput(f"the file ends before {what}; it is incomplete")
        return line


def _lacking(number: int, text: str, what: str, needed: str) -> InvalidInput:
    return InvalidInput(f"line {number} is {text[:60]!r}, where {what} should be; give {needed}")


def _leading_numbers(text: str, most: int) -> list[float]:
    found: list[float] = []
    for word in text.replace(",", " ").split()[:most]:
        try:
            found.append(float(word))
        except ValueError:
            break
    return found


def _domain(lines: _Lines, *, from_zero: bool) -> dict[str, Any]:
    file = lines.text("the name of the volume's file")
    axes = [lines.numbers(f"the edge of a voxel and the number of voxels along {axis}", 2, 4) for axis in _AXES]
    media = [_OUTSIDE]
    for _ in range(_count(lines, "the number of media")):
        mus, g, mua, n = lines.numbers("scattering, g, absorption, and refractive index of a medium", 4)
        media.append({"mua": mua, "mus": mus, "g": g, "n": n})
    section = {"VolumeFile": file, "OriginType": int(from_zero), "Media": media}
    section |= {"Step": [axis[0] for axis in axes], "Dim": [axis[1] for axis in axes]}
    cropped = any(len(axis) == 4 and tuple(axis[2:]) != (1, axis[1]) for axis in axes)
    return section | ({"Crop": [axis[2:] for axis in axes]} if cropped else {})


def _detectors(lines: _Lines) -> list[dict[str, Any]]:
    number, *radius = lines.numbers("number and radius of the detectors", 1, 2)
    found = []
    for _ in range(_checked_count(number, "the number of detectors")):
        *position, own = (*lines.numbers("the position of a detector", 3, 4), *radius, 1.0)[:4]
        found.append({"Pos": position, "R": own})
    return found


def _kind(lines: _Lines) -> dict[str, Any]:
    line = lines.next()
    if line is None:
        return {}
    kind = line[1].split()[0]
    if kind.lower().startswith("pattern"):
        raise InvalidInput(f"the source is of kind {kind!r}; its pattern is read from MCX's JSON input only")
    rows = {f"Param{row}": lines.numbers(f"row {row} of the source's parameters", 4) for row in (1, 2)}
    return {"Type": kind} | rows


def _count(lines: _Lines, what: str) -> int:
    return _checked_count(float(lines.whole(what)), what)


def _checked_count(number: float, what: str) -> int:
    if not (0 <= number <= MAX_ROWS and number.is_integer()):
        raise InvalidInput(f"{what} is {number:g}; MCX takes up to {MAX_ROWS}")
    return int(number)
