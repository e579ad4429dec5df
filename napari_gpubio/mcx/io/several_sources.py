"""One or several sources of an MCX file, and stacks of patterns that share photons.

Several sources have one type, and a row each in ``Pos``, ``Dir``, ``Param1`` and ``Param2``; or ``Source`` is a list of
objects. The fourth number of ``Pos`` is the weight of a source: MCX launches as many photons from each, that much
heavier, and divides by the launched weight. This engine draws sources by their weights, to the same mean.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.foreign import MAX_WHOLE, existing_bytes
from napari_gpubio.mcx.io.domain import McxFrame, inside
from napari_gpubio.mcx.io.jdata import Section, is_array, shown
from napari_gpubio.mcx.io.source_reading import read_patterns, read_source
from napari_gpubio.mcx.io.source_writing import write_source
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import (
    AnySource,
    Pattern,
    Source,
    checked_patterns,
    one_or_all,
    rectangle_of,
    single_source,
)

Array = npt.NDArray[Any]
_ROWS = ("Pos", "Dir", "Param1", "Param2")
TOGETHER, SEPARATELY = 0, -1  # numbers of MCX's srcid; others choose one source, from 1


class ReadSources(NamedTuple):
    """What the section Optode says about sources.

    Parameters
    ----------
    source
        One source or several; of patterns, the rectangle that they are on.
    patterns
        Patterns that share photons, shape (K, rows, columns), or None.
    separately
        Whether each source is to have a result of its own.
    notes
        Messages to the user.
    """

    source: AnySource
    patterns: Array | None
    separately: bool
    notes: tuple[str, ...]


def read_sources(optode: Section, frame: McxFrame, folder: Path, chosen: int | None = None) -> ReadSources:
    """Read all sources; one that this engine lacks is refused with its number.

    Parameters
    ----------
    optode
        The section Optode.
    frame
        Unit and origin of positions.
    folder
        Where the file lies, and files that it names.
    chosen
        MCX's srcid: 0 for all sources together, -1 for each separately, or the number of one; None: as the file says,
        else 0.

    Raises
    ------
    InvalidInput
        As of `mcx.io.source_reading.read_source`; if rows do not match, ``chosen`` is none of the sources,
        or the file of a pattern is missing or has another size.
    """
    rows = [_with_pattern_file(row, folder) for row in _rows(optode)]
    first = Section("Optode.Source", rows[0], optode.root)
    chosen = first.whole("SrcID", TOGETHER) if chosen is None else chosen
    if not SEPARATELY <= chosen <= len(rows):
        raise InvalidInput(
            f"the source to simulate is number {chosen}, and the file has {len(rows)}; give 1 to {len(rows)}, 0 for "
            "all of them together, or -1 for each separately"
        )
    if _is_stack(first):
        if len(rows) > 1:
            raise InvalidInput("Optode.Source has several sources and several patterns; MCX has one or the other")
        rectangle, patterns, notes = read_patterns(Section("Optode", {"Source": rows[0]}, optode.root), frame)
        return ReadSources(rectangle, checked_patterns(patterns), separately=False, notes=notes)
    if len(rows) == 1:
        source, notes = read_source(Section("Optode", {"Source": rows[0]}, optode.root), frame)
        return ReadSources(source, None, chosen == SEPARATELY, notes)
    wanted = range(len(rows)) if chosen <= 0 else (chosen - 1,)
    read = [_read_row(rows[number], number + 1, len(rows), optode, frame) for number in wanted]
    notes = tuple(dict.fromkeys(note for _, notes in read for note in notes))
    return ReadSources(one_or_all(tuple(source for source, _ in read)), None, chosen == SEPARATELY, notes)


def _with_pattern_file(fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of a source with the numbers of the file that its pattern names, float32 one after another.

    Of patterns that share photons, Nx, Ny and Nz may count the numbers of one pattern or those of all.
    """
    source = Section("Optode.Source", fields)
    node = source.get("Pattern")
    if not isinstance(node, Mapping):
        return fields
    pattern = source.section("Pattern")
    if not isinstance(name := pattern.get("Data"), str):
        return fields
    path = existing_file(inside(folder, name, "Optode.Source.Pattern.Data"))
    count, patterns = math.prod(pattern.whole(key, 1) for key in ("Nx", "Ny", "Nz")), source.whole("SrcNum", 1)
    if path.stat().st_size not in (4 * count, 4 * count * patterns):
        raise InvalidInput(
            f"{path.name} has {path.stat().st_size:,} bytes, and the pattern has {count:,} numbers of 4 bytes, times "
            f"{patterns} patterns; correct Nx, Ny and Nz of Optode.Source.Pattern"
        )
    others = {key: value for key, value in node.items() if key.lower() != "data"}
    values = np.frombuffer(existing_bytes(path, MAX_WHOLE), "<f4").astype(np.float64)
    return {key: value for key, value in fields.items() if key.lower() != "pattern"} | {
        "Pattern": {**others, "Data": values.tolist()}
    }


def _rows(optode: Section) -> list[dict[str, Any]]:
    """The fields of each source."""
    node = optode.get("Source")
    if node is None:
        raise InvalidInput("Optode.Source is missing; add it")
    if isinstance(node, list):
        if not node or not all(isinstance(one, Mapping) for one in node):
            raise InvalidInput(f"Optode.Source is {shown(node)}; give an object, or a list of objects")
        return [row for one in node for row in _split(Section("Optode.Source", dict(one), optode.root))]
    return _split(optode.section("Source"))


def _split(section: Section) -> list[dict[str, Any]]:
    """The fields of each source of an object whose values may be lists of rows, or one row for all."""
    lists = {key: section.get(key) for key in _ROWS}
    tables = {key: rows for key, rows in lists.items() if isinstance(rows, list) and rows and isinstance(rows[0], list)}
    count = max((len(rows) for rows in tables.values()), default=1)
    if odd := [key for key, rows in tables.items() if len(rows) not in (1, count)]:
        raise InvalidInput(
            f"Optode.Source.{odd[0]} has {len(tables[odd[0]])} rows, and other fields have {count}; give a row for "
            "each source"
        )
    if count > 1 and "Pos" not in tables:
        raise InvalidInput(f"Optode.Source has {count} rows for sources and a single Pos; give each its position")
    lowered = {key.lower() for key in tables}
    others = {key: value for key, value in section.fields.items() if key.lower() not in lowered}
    return [others | {key: rows[min(number, len(rows) - 1)] for key, rows in tables.items()} for number in range(count)]


def _is_stack(section: Section) -> bool:
    """Whether patterns share photons: by SrcNum, or by an array with three axes."""
    node = section.get("Pattern")
    sizes = node.get("_ArraySize_") if is_array(node) and isinstance(node, Mapping) else None
    is_cube = isinstance(sizes, list) and len(sizes) == 3 and min(sizes[0], sizes[2]) > 1
    kind = section.text("Type", "pencil").lower()
    return kind == "pattern" and (section.whole("SrcNum", 1) > 1 or is_cube)


def _read_row(
    row: dict[str, Any], number: int, count: int, optode: Section, frame: McxFrame
) -> tuple[Source, tuple[str, ...]]:
    try:
        section = Section("Optode.Source", row, optode.root)
        position = section.numbers("Pos", 3, 4)
        weight = section.number("Weight", (*position, 1.0)[3])
        plain = {key: value for key, value in row.items() if key.lower() not in ("weight", "pos")}
        fields = {"Source": plain | {"Pos": list(position[:3])}}
        source, notes = read_source(Section("Optode", fields, optode.root), frame)
        return dataclasses.replace(source, weight=weight), notes
    except InvalidInput as error:
        raise InvalidInput(f"source {number} of {count}: {error}") from error


def write_sources(source: AnySource, domain: Domain, frame: McxFrame, patterns: Array | None = None) -> dict[str, Any]:
    """Return the object Optode.Source.

    Parameters
    ----------
    source
        One source, or several of one type, launch angles and pattern, which get a row each.
    domain
        Where they are; positions and directions are written along its axes.
    frame
        Unit and origin of positions.
    patterns
        Patterns that share photons, shape (K, rows, columns), on the rectangle of a single source `Planar` or
        `Pattern`, whose own pattern is not written.

    Raises
    ------
    InvalidInput
        If MCX has no such source, several sources differ in what an MCX file has once, there are patterns and several
        sources, or patterns on a source without a rectangle.
    """
    if patterns is not None:
        return _written_patterns(single_source(source, "a stack of patterns"), domain, frame, patterns)
    if isinstance(source, Source):
        return write_source(source, domain, frame)
    written = [write_source(one, domain, frame) for one in source]
    shared = {key: value for key, value in written[0].items() if key not in _ROWS}
    for number, fields in enumerate(written, 1):
        if {key: value for key, value in fields.items() if key not in _ROWS} != shared:
            raise InvalidInput(
                f"sources 1 and {number} have different types, patterns or launch angles; in an MCX file all sources "
                "have the same"
            )
        fields["Pos"] = [*fields["Pos"], source[number - 1].weight]
        fields["Dir"] = [*fields["Dir"], 0.0][:4]
    keys = [key for key in _ROWS if any(key in fields for fields in written)]
    return shared | {key: [fields.get(key, [0.0] * 4) for fields in written] for key in keys}


def _written_patterns(source: Source, domain: Domain, frame: McxFrame, patterns: Array) -> dict[str, Any]:
    """Numbers of a pixel stand side by side for all patterns."""
    patterns = checked_patterns(patterns)
    fields = write_source(rectangle_of(source).changed_to(Pattern, pattern=patterns[0]), domain, frame)
    data = np.moveaxis(patterns, 0, 2).ravel().tolist()
    return fields | {"SrcNum": len(patterns), "Pattern": fields["Pattern"] | {"Data": data}}
