"""MCML's output files, ``.mco``: written so that MCML's own tools (CONV) read them, and read back.

Lengths are cm in the file and mm here.
"""

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.files import atomic_write
from napari_gpubio.light.io.mci import MciRun, read_run, run_lines
from napari_gpubio.light.io.mci_lines import DataLines
from napari_gpubio.light.io.mco_layout import (
    BLOCKS,
    FRACTION_NAMES,
    FRACTIONS,
    FRACTIONS_HEADING,
    HEADER,
    NOT_TALLIED,
    PARAMETERS,
    PARAMETERS_HEADING,
    Block,
    angular_ratio,
)
from napari_gpubio.light.layers.result import Estimates, LayeredResult
from napari_gpubio.light.layers.settings import LayeredSettings, solid_angle_sr
from napari_gpubio.light.result import Estimate

Floats = npt.NDArray[np.float64]
_A_LINE = 5  # numbers of a map
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
    if "software" not in facts:  # read from a file, which does not tell the seed
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
    for start in range(0, len(flat), _A_LINE):
        yield "".join(f"{value:12.4E} " for value in flat[start : start + _A_LINE])
    if len(flat) % _A_LINE == 0:
        yield ""


# -- reading ----------------------------------------------------------------------------------------------------------


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
            arrays[block.name] = _estimates(blocks[block.name] / (angular if block.axes == "a" else block.per_mm_unit))
    return LayeredResult(
        medium=run.medium,
        settings=dataclasses.replace(run.settings, absorption=arrays["A_rz"] is not None),
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


def _estimates(values: Floats) -> Estimates:
    return Estimates(values, np.full(values.shape, np.nan))


def _angular_ratio_of(settings: LayeredSettings, blocks: dict[str, Floats], escaped: float) -> float:
    """The file's Rd_a and Tt_a over ours: MCML's, or 1.

    GPU-MCML and CUDAMCML divide by the solid angle and no word in their files says so; what escaped in all does.
    """
    total = float(np.sum((blocks["Rd_a"] + blocks["Tt_a"]) * solid_angle_sr(settings)))
    return min((angular_ratio(settings), 1.0), key=lambda ratio: abs(total / ratio - escaped))
