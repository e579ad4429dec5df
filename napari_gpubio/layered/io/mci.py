"""MCML's input files, ``.mci``: layers, grid and photons of one run or of several (Wang et al. 1995).

Lengths are cm in the file and mm here. In order, ``#`` beginning a comment and blank lines anywhere::

    1.0                      # file version
    1                        # number of runs
    skin.mco A               # output file, ASCII or Binary (MCML writes text for both)
    100000                   # photons
    0.002 0.01               # dz, dr
    500 200 30               # numbers of dz, dr, da
    2                        # layers
    1.0                      # n above
    1.4 0.7 200 0.76 0.162   # n, mua, mus, g, d of each layer
    1.44 0.3 150 0.8 1.0E+8  # a last layer of 1e8 cm or more is endless
    1.0                      # n below
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.foreign import MAX_WHOLE, existing_text
from napari_gpubio.core.reading import reads_file
from napari_gpubio.layered.model import MAX_LAYERS, LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.model import THICKEST_MM, Layer

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f]")
_END_OF_FILE = "\x1a"  # with which DOS ended a text
_MAX_SHOWN = 60
_MAX_BINS = 32767  # what MCML's 16-bit counters hold
_ENDLESS = "1E+08"
_LONGEST_NAME = 80  # MCML reads 255 bytes at a time
_LAYER_NUMBER = re.compile(r"^layer\s*\d+\s*[:.,–-]?\s*", re.IGNORECASE)


class DataLines:
    """The lines of a text file that hold data, one after the other.

    ``number`` (from 1) and ``words`` are those of the current line, ``comment`` is what follows ``#`` in it. Methods
    raise `InvalidInput` that names and shows the line; ``what`` is what should stand there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.number = 0
        self.words: list[str] = []
        self.comment = ""
        text = existing_text(path, MAX_WHOLE, other="latin-1")
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._lines = iter(self.text.removesuffix("\n").split("\n"))

    def advance(self) -> bool:
        """Go to the next line with data; False if there is none."""
        for line in self._lines:
            self.number += 1
            if found := _NOT_TEXT.search(line):
                self.words = []
                raise self.failure(f"this is not text (byte {ord(found[0]):#04x}); give a file in MCML's text format")
            data, _, comment = line.replace(_END_OF_FILE, " ").partition("#")
            if words := data.split():
                self.words, self.comment = words, comment.strip()
                return True
        return False

    def next(self, what: str) -> list[str]:
        """Words of the next line with data."""
        if not self.advance():
            self.words = []
            raise self.failure(f"the file ends where {what} should follow")
        return self.words

    def numbers(self, count: int, what: str) -> list[str]:
        """``count`` numbers of the next line with data, as written; words behind them are left out, as MCML does."""
        words = self.next(what)
        for word in words[:count]:
            if not is_number(word):
                raise self.failure(f"{word[:_MAX_SHOWN]!r} is not a number; {what} expected here")
        found = len(list(itertools.takewhile(is_number, words)))
        if found != count:
            raise self.failure(f"{what} expected here: {count} number{'s' * (count > 1)}, not {found}")
        return words[:count]

    def floats(self, what: str) -> list[float]:
        """All numbers of the next line with data, however many."""
        words = self.next(what)
        try:
            return [float(word) for word in words]
        except ValueError as error:
            raise self.failure(f"numbers of {what} expected here") from error

    def whole_numbers(self, count: int, what: str) -> list[int]:
        """Integers of the next line with data; 1e6 is one as well."""
        words = self.numbers(count, what)
        for word in words:
            if not float(word).is_integer():
                raise self.failure(f"{word} is not an integer; {what} expected here")
        return [int(float(word)) for word in words]

    def failure(self, reason: str) -> InvalidInput:
        """The error that names the current line and shows it."""
        shown = " ".join(self.words)
        shown = shown[:_MAX_SHOWN] + "…" if len(shown) > _MAX_SHOWN else shown
        return InvalidInput(f"{self.path.name}, line {self.number}: {reason}" + (f" (“{shown}”)" if shown else ""))

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Put the current line in front of what is wrong with values that came from it."""
        try:
            yield
        except InvalidInput as error:
            raise self.failure(str(error)) from error


def is_number(word: str) -> bool:
    """Whether a word is a number as MCML's files have them."""
    return _NUMBER.fullmatch(word) is not None


def moved_point(digits: str, places: int) -> Decimal:
    """A number as it is written, times a power of ten, with its point moved.

    Multiplied as a float, 0.011 cm would become 0.10999999999999999 mm.
    """
    return Decimal(digits).scaleb(places)


@dataclass(frozen=True, kw_only=True)
class MciRun:
    """One run of an input file.

    Parameters
    ----------
    medium, settings
        What is simulated. Names of layers are the comments behind them; the file knows nothing of the seed and of
        other settings that MCML lacks, which have their defaults.
    output
        Name of the output file, as it is written.
    binary
        Whether the file requests binary output. MCML 1.2.2 writes text all the same, and so do we.
    """

    medium: LayeredMedium
    settings: LayeredSettings
    output: str
    binary: bool = False


@reads_file
def read_mci(path: str | Path) -> tuple[MciRun, ...]:
    """Read MCML's input file.

    The grammar is MCML's, with two exceptions: integers may be written 1e6 (MCML would read 1), and what MCML would
    pass over in silence (data after the last run, a number too many in a line) is an error.

    Raises
    ------
    InvalidInput
        If something is wrong; the sentence names the line and the reason.
    """
    lines = DataLines(path)
    _check_version(lines)
    (count,) = lines.whole_numbers(1, "the number of runs")
    if count < 1:
        raise lines.failure(f"the number of runs is {count}; it must be at least 1")
    runs, line_of_count, taken = [], lines.number, dict[str, int]()
    for number in range(1, count + 1):
        runs.append(read_run(lines, f"run {number} of {count}" if count > 1 else "the run", taken))
    if lines.advance():
        raise lines.failure(
            f"data follows after the last run; correct the number of runs in line {line_of_count} ({count}), or put # "
            "in front of what follows"
        )
    return tuple(runs)


def _check_version(lines: DataLines) -> None:
    (version, *_) = lines.next("the file version, 1.0,")
    if version.lower().startswith("mcmli2"):
        raise lines.failure("this is an input file of MCML 2; only the format of MCML 1 (version 1.0) can be read")
    if version in ("A1", "B1"):
        raise lines.failure("this is an output file of MCML (.mco); give its input file (.mci)")
    if not is_number(version):
        raise lines.failure("MCML's input files begin with the file version, 1.0")


def read_run(lines: DataLines, what: str, taken: dict[str, int]) -> MciRun:
    """Read one run (``what``, for errors); ``taken`` has the output files of earlier runs, and their lines."""
    output, binary = _output(lines, what, taken)
    settings = _settings(lines, what)
    medium = _medium(lines, what, name=Path(output).stem)
    return MciRun(medium=medium, settings=settings, output=output, binary=binary)


def _output(lines: DataLines, what: str, taken: dict[str, int]) -> tuple[str, bool]:
    name, *rest = lines.next(f"{what}, beginning with the name of its output file,")
    if is_number(name):
        raise lines.failure(f"the name of the output file of {what} expected here, for instance skin.mco A")
    if name in taken:
        raise lines.failure(f"the output file {name} is line {taken[name]}'s already; each run needs its own")
    taken[name] = lines.number
    return name, bool(rest) and rest[0][0].upper() == "B"


def _settings(lines: DataLines, what: str) -> LayeredSettings:
    settings = LayeredSettings()
    (photons,) = lines.whole_numbers(1, f"the number of photons of {what}")
    with lines.blamed():
        settings = dataclasses.replace(settings, photons=photons)
    dz, dr = (float(moved_point(number, 1)) for number in lines.numbers(2, f"dz and dr (cm) of {what}"))
    with lines.blamed():
        settings = dataclasses.replace(settings, dz_mm=dz, dr_mm=dr)
    nz, nr, na = lines.whole_numbers(3, f"the numbers of dz, dr and da of {what}")
    with lines.blamed():
        return dataclasses.replace(settings, depth_bins=nz, radial_bins=nr, angle_bins=na)


def _medium(lines: DataLines, what: str, name: str) -> LayeredMedium:
    (count,) = lines.whole_numbers(1, f"the number of layers of {what}")
    if not 1 <= count <= MAX_LAYERS:
        raise lines.failure(f"there are {count} layers; 1 to {MAX_LAYERS} are possible")
    n_above = _ambient(lines, f"the refractive index above {what}")
    layers = tuple(_layer(lines, f"layer {i} of {count}", is_last=i == count) for i in range(1, count + 1))
    with lines.blamed():
        medium = LayeredMedium(layers=layers, n_above=n_above, name=name)
    return dataclasses.replace(medium, n_below=_ambient(lines, f"the refractive index below {what}"))


def _ambient(lines: DataLines, what: str) -> float:
    n = float(lines.numbers(1, what)[0])
    if not 1 <= n < math.inf:
        raise lines.failure(f"{what} is {n:g}; it must be at least 1")
    return n


def _layer(lines: DataLines, what: str, *, is_last: bool) -> Layer:
    n, mua, mus, g, d = lines.numbers(5, f"n, mua, mus, g and d of {what}")
    thickness = float(moved_point(d, 1))
    with lines.blamed():
        layer = Layer(
            n=float(n),
            mua_per_mm=float(moved_point(mua, -1)),
            mus_per_mm=float(moved_point(mus, -1)),
            g=float(g),
            thickness_mm=thickness if thickness < THICKEST_MM else math.inf,
            name=_LAYER_NUMBER.sub("", lines.comment),
        )
    if layer.is_endless and not is_last:
        raise lines.failure(f"{what} is infinitely thick; only the last one may be")
    return layer


# -- writing ----------------------------------------------------------------------------------------------------------


def write_mci(path: str | Path, runs: Sequence[MciRun]) -> None:
    """Write an input file that MCML reads; `read_mci` gives the same runs back, but for settings that MCML lacks.

    Raises
    ------
    InvalidInput
        If there are no runs, MCML cannot do one of them, or the file cannot be written.
    """
    if not runs:
        raise InvalidInput("there are no runs to write; give at least one")
    _check_outputs([run.output for run in runs])
    lines = ["1.0\t\t\t\t\t# file version", f"{len(runs)}\t\t\t\t\t# number of runs", ""]
    for number, run in enumerate(runs, 1):
        _check_for_mcml(run)
        lines += [f"### run {number}", *run_lines(run), ""]
    with atomic_write(path) as part:
        part.write_text("\n".join(lines), encoding="ascii", errors="replace", newline="\n")  # MCML stops at others


def run_lines(run: MciRun) -> Iterator[str]:
    """Lines of one run as MCML writes them into its output files."""
    s, layers = run.settings, run.medium.layers
    form, word = ("B", "binary") if run.binary else ("A", "ASCII")
    yield f"{run.output} \t{form}\t\t# output file name, {word}."
    yield f"{s.photons} \t\t\t# No. of photons"
    yield f"{_shown(s.dz_mm, -1)}\t{_shown(s.dr_mm, -1)}\t\t# dz, dr [cm]"
    yield f"{s.depth_bins}\t{s.radial_bins}\t{s.angle_bins}\t# No. of dz, dr, da."
    yield ""
    yield f"{len(layers)}\t\t\t\t\t# Number of layers"
    yield "#n\tmua\tmus\tg\td\t# One line for each layer"
    yield f"{_shown(run.medium.n_above)}\t\t\t\t\t# n for medium above"
    for number, layer in enumerate(layers, 1):
        name = f": {' '.join(layer.name.split())}"[:_LONGEST_NAME] if layer.name else ""
        yield "\t".join(_layer_numbers(layer)) + f"\t# layer {number}{name}"
    yield f"{_shown(run.medium.n_below)}\t\t\t\t\t# n for medium below"


def _layer_numbers(layer: Layer) -> Iterator[str]:
    yield _shown(layer.n)
    yield _shown(layer.mua_per_mm, 1)
    yield _shown(layer.mus_per_mm, 1)
    yield _shown(layer.g)
    yield _ENDLESS if layer.is_endless else _shown(layer.thickness_mm, -1)


def _shown(value: float, places: int = 0) -> str:
    """A number with its point moved, as C's %G shows it if six digits are all it has."""
    moved = moved_point(repr(float(value)), places)
    short = f"{float(moved):G}"
    return short if Decimal(short) == moved else str(moved)


def _check_outputs(names: Sequence[str]) -> None:
    for name in names:
        if not name or name != "".join(name.split()) or "#" in name or is_number(name) or not name.isascii():
            raise InvalidInput(
                f"an output file is named {name!r}; MCML needs ASCII letters without spaces or #, no number"
            )
        if names.count(name) > 1:
            raise InvalidInput(f"two runs have the output file {name}; MCML needs a name for each")


def _check_for_mcml(run: MciRun) -> None:
    s = run.settings
    if (bins := max(s.depth_bins, s.radial_bins, s.angle_bins)) > _MAX_BINS:
        raise InvalidInput(f"{run.output} has {bins:,} bins in one direction; MCML counts to {_MAX_BINS:,}")
    for number, layer in enumerate(run.medium.layers, 1):
        if layer.g < 0:
            raise InvalidInput(f"layer {number} of {run.output} has g = {layer.g:g}; MCML needs g from 0 to 1")
