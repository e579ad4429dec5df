"""How MCML's output files, ``.mco``, are laid out: their blocks, the units in them, and the headings that mark them."""

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.reading import reads_file
from napari_gpubio.layered.io.mci import DataLines, MciRun, read_run, run_lines
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.settings import LayeredSettings, solid_angle_sr
from napari_gpubio.optics.estimates import Estimate, Estimates

HEADER = """\
A1 \t# Version number of the file format.

####
# Data categories include:\x20
# InParm, RAT,\x20
# A_l, A_z, Rd_r, Rd_a, Tt_r, Tt_a,\x20
# A_rz, Rd_ra, Tt_ra\x20
####
"""
PARAMETERS, FRACTIONS = "InParm", "RAT"
PARAMETERS_HEADING = "InParm \t\t\t# Input parameters. cm is used."
FRACTIONS_HEADING = "RAT #Reflectance, absorption, transmission. "
FRACTION_NAMES = ("Specular reflectance", "Diffuse reflectance", "Absorbed fraction", "Transmittance")


@dataclass(frozen=True)
class Block:
    """An array in the file: its keyword, which is also its name in `LayeredResult`, and the file's number over ours.

    The keyword is R, T or A, and by what it is resolved; the ratio is what 1/mm, 1/mm^2, 1/mm^3 are in 1/cm and so on.
    """

    name: str
    per_mm_unit: float

    @property
    def axes(self) -> str:
        """By what it is resolved: letters of r, z, a (angle), l (layer)."""
        return self.name.rpartition("_")[2]

    @property
    def heading(self) -> str:
        """What stands above its numbers, without the last newline."""
        symbol, axes = self.name.split("_")
        if axes == "l":
            return f"{self.name} #Absorption as a function of layer. [-]"
        last = f"n{axes[-1]}-1"
        if len(axes) == 1:
            unit = {"z": "1/cm", "r": "1/cm2", "a": "sr-1"}[axes]
            return f"{self.name} #{symbol}[0], [1],..{symbol}[{last}]. [{unit}]"
        first, second, final = (f"# {symbol}[{row}][0], [{row}][1],..[{row}][{last}]" for row in ("0", "1", "nr-1"))
        what = "[r][z]. [1/cm3]" if axes == "rz" else "[r][angle]. [1/(cm2sr)]."
        return "\n".join((f"# {symbol}{what}", first, second, "# ...", final, self.name))

    def shape(self, medium: LayeredMedium, settings: LayeredSettings) -> tuple[int, ...]:
        """Shape of the array."""
        sizes = {
            "l": len(medium.layers),
            "z": settings.depth_bins,
            "r": settings.radial_bins,
            "a": settings.angle_bins,
        }
        return tuple(sizes[axis] for axis in self.axes)


BLOCKS = (  # in the order that CONV expects
    Block("A_l", 1.0),
    Block("A_z", 10.0),
    Block("Rd_r", 100.0),
    Block("Rd_a", 1.0),
    Block("Tt_r", 100.0),
    Block("Tt_a", 1.0),
    Block("A_rz", 1000.0),
    Block("Rd_ra", 100.0),
    Block("Tt_ra", 100.0),
)
NOT_TALLIED = ("A_z", "A_rz")  # zeros in the file of a run without the absorption map, as GPU-MCML writes them


def angular_ratio(settings: LayeredSettings) -> float:
    """The file's Rd_a and Tt_a over ours.

    MCML divides them by 2 pi sin(a) da, where the solid angle of a bin is 4 pi sin(a) sin(da/2): with 30 angles the
    file's are smaller by 1.1e-4, with one angle by a tenth. Its Rd_ra and Tt_ra have the solid angle itself.
    """
    width = np.pi / 2 / settings.angle_bins
    return float(2 * np.sin(width / 2) / width)


Floats = npt.NDArray[np.float64]
_NUMBERS_PER_LINE = 5
_LONGEST_LINE = 200  # CONV reads 255 bytes at a time
_LONGEST_HEADER = 2000
_SECONDS = re.compile(r"User time:\s*([\d.]+)\s*sec")


def write_mco(path: str | Path, result: LayeredResult) -> None:
    """Write a result as MCML 1.2.2 does.

    Without the absorption map A_z and A_rz are zero, as GPU-MCML writes them. A_l is by layer exactly, where MCML sums
    the depth bins whose centers lie in a layer; Rsp, Rd, A and T have six digits, arrays five (A_l four).

    Raises
    ------
    InvalidInput
        If the file cannot be written; an older one is then as it was.
    """
    with atomic_write(path) as part, part.open("w", encoding="ascii", errors="replace", newline="\n") as file:
        file.writelines(f"{line}\n" for line in _lines(result, Path(path).name))


def _lines(result: LayeredResult, name: str) -> Iterator[str]:
    yield HEADER
    yield _time_line(result)
    yield ""
    yield PARAMETERS_HEADING
    settings = dataclasses.replace(result.settings, photons=max(1, result.launched))
    output = re.sub(r"[\s#]", "_", name)  # a space would end the name, # make it a comment
    yield from run_lines(MciRun(medium=result.medium, settings=settings, output=output))
    yield ""
    yield FRACTIONS_HEADING
    parts = (result.diffuse_reflectance, result.absorbed, result.transmittance)
    for value, words in zip((result.specular, *(part.value for part in parts)), FRACTION_NAMES, strict=True):
        yield f"{value:<14.6G} \t#{words} [-]"
    yield ""
    for block in BLOCKS:
        yield block.heading
        yield from _number_lines(block, _in_file_units(block, result))


def _time_line(result: LayeredResult) -> str:
    facts = result.parameters
    seconds = float(facts.get("seconds", 0.0))
    line = f"# User time: {seconds:8.2f} sec = {seconds / 3600:8.2f} hr.   Simulation time of this run."
    if "software" not in facts:  # read from a file, which does not contain the seed
        return line
    return f"{line} {facts['software']}, seed {result.settings.seed}, {facts.get('device', '')}"[:_LONGEST_LINE]


def _in_file_units(block: Block, result: LayeredResult) -> Floats:
    found: Estimates | None = getattr(result, block.name)
    if found is None:
        return np.zeros(block.shape(result.medium, result.settings))
    return found.value * (angular_ratio(result.settings) if block.axes == "a" else block.per_mm_unit)


def _number_lines(block: Block, values: Floats) -> Iterator[str]:
    """One number a line and a blank one, or five a line; a map's last line is blank only if it would be full."""
    if values.ndim == 1:
        form = "{:12.4G}" if block.axes == "l" else "{:12.4E}"
        yield from map(form.format, values)
        yield ""
        return
    flat = values.ravel()
    for start in range(0, len(flat), _NUMBERS_PER_LINE):
        yield "".join(f"{value:12.4E} " for value in flat[start : start + _NUMBERS_PER_LINE])
    if len(flat) % _NUMBERS_PER_LINE == 0:
        yield ""


# -- reading ----------------------------------------------------------------------------------------------------------


@reads_file
def read_mco(path: str | Path) -> LayeredResult:
    """Read an output file of MCML, GPU-MCML, CUDAMCML, or of `write_mco`.

    Returns
    -------
    LayeredResult
        Standard errors are NaN, as the file has none; the seed is unknown and has its default. A_z and A_rz are None
        where the file has none, or nothing but zeros in layers that absorb (a run without the absorption map).

    Raises
    ------
    InvalidInput
        If something is wrong; the sentence names the line and the reason.
    """
    lines = DataLines(path)
    (version, *_) = lines.next("the version of the file format, A1,")
    if version not in ("A1", "B1"):
        raise lines.failure("MCML's output files begin with the version of their format, A1")
    _seek(lines, PARAMETERS)
    run = read_run(lines, "the run", {})
    fractions, blocks = _fractions(lines), _blocks(lines, run)
    absorbs = any(layer.mua_per_mm > 0 for layer in run.medium.layers)
    if absorbs and not any(np.any(blocks.get(name, 0.0)) for name in NOT_TALLIED):
        blocks = {name: values for name, values in blocks.items() if name not in NOT_TALLIED}
    return _result(run, fractions, blocks, _parameters(lines, version, run))


def _seek(lines: DataLines, keyword: str) -> None:
    while lines.next(keyword)[0] != keyword:
        pass


def _fractions(lines: DataLines) -> list[float]:
    _seek(lines, FRACTIONS)
    return [float(lines.numbers(1, name.lower())[0]) for name in FRACTION_NAMES]


def _blocks(lines: DataLines, run: MciRun) -> dict[str, Floats]:
    """Arrays in the file's units, by name."""
    known, found = {block.name: block for block in BLOCKS}, dict[str, Floats]()
    while lines.advance():
        block = known.pop(lines.words[0], None)
        if block is None:
            raise lines.failure(f"one of the blocks {', '.join(known)} must begin here; the one before is complete")
        found[block.name] = _array(lines, block.name, block.shape(run.medium, run.settings))
    if missing := [name for name in known if name not in NOT_TALLIED]:
        raise lines.failure(f"the file ends without {', '.join(missing)}")
    return found


def _array(lines: DataLines, name: str, shape: tuple[int, ...]) -> Floats:
    count, numbers = math.prod(shape), list[float]()
    while len(numbers) < count:
        numbers += lines.floats(f"{name}, which has {len(numbers):,} of {count:,} numbers so far,")
    if len(numbers) > count:
        raise lines.failure(f"{name} has more than its {count:,} numbers")
    return np.reshape(numbers, shape)


def _parameters(lines: DataLines, version: str, run: MciRun) -> dict[str, Any]:
    facts = {"file": lines.path.name, "format": version, "output": run.output}
    seconds = _SECONDS.search(lines.text[:_LONGEST_HEADER])
    return facts | ({"seconds": float(seconds[1])} if seconds else {})


def _result(
    run: MciRun, fractions: list[float], blocks: dict[str, Floats], parameters: dict[str, Any]
) -> LayeredResult:
    specular, reflected, absorbed, transmitted = fractions
    angular = _angular_ratio_of(run.settings, blocks, reflected + transmitted)
    arrays: dict[str, Any] = dict.fromkeys(NOT_TALLIED)
    for block in BLOCKS:
        if block.name in blocks:
            values = blocks[block.name] / (angular if block.axes == "a" else block.per_mm_unit)
            arrays[block.name] = Estimates(values, np.full(values.shape, np.nan))
    return LayeredResult(
        medium=run.medium,
        settings=dataclasses.replace(run.settings, absorption="off" if arrays["A_rz"] is None else "collect"),
        specular=specular,
        diffuse_reflectance=Estimate(reflected, math.nan),
        transmittance=Estimate(transmitted, math.nan),
        absorbed=Estimate(absorbed, math.nan),
        roulette=Estimate(0.0, math.nan),
        **arrays,
        launched=run.settings.photons,
        complete=True,
        parameters=parameters,
    )


def _angular_ratio_of(settings: LayeredSettings, blocks: dict[str, Floats], escaped: float) -> float:
    """The file's Rd_a and Tt_a over ours: MCML's, or 1.

    GPU-MCML and CUDAMCML divide by the solid angle, which shows only in the sum of what escaped.
    """
    total = float(np.sum((blocks["Rd_a"] + blocks["Tt_a"]) * solid_angle_sr(settings)))
    return min((angular_ratio(settings), 1.0), key=lambda ratio: abs(total / ratio - escaped))
