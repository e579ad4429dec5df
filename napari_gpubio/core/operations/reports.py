"""Reports: one page for a browser with the pictures, numbers, and provenance of results, that needs no network."""

import datetime
import html
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio import __version__
from napari_gpubio.core.device import Device, choose_device, machine
from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import write_text
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.ome_zarr import SUFFIX
from napari_gpubio.core.operations.file_records import ways_to_open
from napari_gpubio.core.operations.files import output_of_record
from napari_gpubio.core.operations.graphs import ancestry, listed_fields
from napari_gpubio.core.operations.records import Output, verbs
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.operations.scripts import script
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import record_beside
from napari_gpubio.core.pages import html_of
from napari_gpubio.core.reading import note, without_notes
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import NIFTI_SUFFIXES

MAX_BYTES = 9_000_000  # of the sections of a page; beyond, they are without pictures
_MOST_FILES, _MOST_ROWS = 200, 50
_ARRAYS = Path("arrays")  # the folder of a session that has what no file holds
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em}section{border-top:1px solid #ccc}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{padding:.1em .8em;border-bottom:1px solid #ddd;text-align:left}"
    "figure{margin:1em 0}img{max-width:100%}figcaption,caption{color:#555;text-align:left}pre{background:#f4f4f4;"
    "padding:1em;overflow:auto}"
)


class Section(NamedTuple):
    """A result in a report: its name and value, what made it, and why there is no value, or on what it was made."""

    name: str
    value: Any
    made_by: Output[Any] | None = None
    about: str = ""


def write_report(results: Mapping[str, Any] | Iterable[Section], path: str | Path, *, title: str = "Report") -> Path:
    """Write a page of results: their pictures, numbers with errors and tables, and what made them.

    Parameters
    ----------
    results
        Results by their names; or sections.
    path
        Ends in ``.html``. It needs no other file and no network, and has less than 10 MB: where pictures take more, the
        last sections are without.
    title
        Of the page.

    Raises
    ------
    InvalidInput
        If there are no results, the name ends otherwise, or the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from napari_gpubio import diffusion
    >>> field = diffusion.phantom.ring_field()
    >>> page = write_report({"ring": field}, pathlib.Path(tempfile.mkdtemp(), "ring.html"))
    >>> "voxels with a tensor" in page.read_text(encoding="utf-8")
    True
    """
    path = Path(path)
    sections = [Section(*one) for one in (results.items() if isinstance(results, Mapping) else results)]
    if not sections:
        raise InvalidInput("there is no result to report; give one at least")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"{path.name} does not end in .html; a report is a page for a browser")
    write_text(path, _page(title, sections))
    return path


def shown_sections(
    shown: Iterable[Shown], *, device: str | Device = "auto", store: Store = STORE, stop: Any = None
) -> Generator[Step, None, list[Section]]:
    """Make what layers show, step by step, for a report; what is kept is not made again."""
    sections = list[Section]()
    for one in shown:
        about = f"made on {one.device}" if one.device else ""
        try:
            kept = store.last_value(one.output)
            value = (yield from run_steps(one.output, device=device, store=store, stop=stop)) if kept is None else kept
        except GpuBioError as error:
            value, about = None, f"not made: {error}"
        if stop is not None and stop.is_set():
            break
        sections.append(Section(one.name, value, one.output, about))
    return sections


def folder_sections(folder: str | Path, store: Store = STORE) -> Generator[Step, None, list[Section]]:
    """Read the results in a folder and those below it, such as those of a subject, or one file, for a report.

    Raises
    ------
    InvalidInput
        If there are no files that can be read, or too many.
    """
    verbs()  # of all engines, with their kinds of files
    folder = Path(folder)
    files = [*_files_in(folder)]
    if len(files) > _MOST_FILES:
        raise InvalidInput(f"{folder} has {len(files):,} files; give a folder with up to {_MOST_FILES}, of one subject")
    sections = list[Section]()
    for number, path in enumerate(files):
        yield Step(number, len(files), f"reading {path.name}")
        name = path.name if path == folder else path.relative_to(folder).as_posix()
        if (section := (yield from _section_of_file(path, name, store))) is not None:
            sections.append(section)
    if not sections:
        raise InvalidInput(f"{folder} has no results that can be read; give a session, or a folder with results")
    return sections


def _section_of_file(path: Path, name: str, store: Store) -> Generator[Step, None, Section | None]:
    """Read a result in the first way that can do so; None where there is none, with a note if one tried."""
    record = record_beside(path) if path.name.lower().endswith(NIFTI_SUFFIXES) else None
    refusal = None
    for opens in ways_to_open(path, output_of_record(record)):
        try:
            with without_notes():
                output = opens.at(path).output()
                value = yield from run_steps(output, device=choose_device("cpu"), store=store)
        except GpuBioError as error:
            refusal = error
            continue
        held = record or getattr(value, "parameters", {}).get(RECORD)
        return Section(name, value, output_of_record(held) or output)
    if refusal is not None:
        note(f"{name} is left out: {refusal}")
    return None


def _files_in(path: Path) -> Iterator[Path]:
    """A file, or those of a folder by their names; an image that is a folder counts as a file."""
    if path.is_file() or path.name.lower().endswith(SUFFIX):
        yield path
        return
    for child in sorted(path.iterdir()):
        if not child.name.startswith("."):
            yield from _files_in(child)


# -- the page ---------------------------------------------------------------------------------------------------------


def _page(title: str, sections: list[Section]) -> str:
    made = [one.made_by for one in sections if one.made_by is not None]
    numbers = {one.id: n + 1 for n, one in enumerate(ancestry(*(output.of for output in made)))}
    parts, size = list[str](), 0
    for one in sections:
        part = _section(one, numbers, pictures=True)
        if size + len(part) > MAX_BYTES:
            part = _section(one, numbers, pictures=False)
        size += len(part)
        parts.append(part)
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    facts = machine()
    by = f"{when}, napari-gpubio {__version__}, {facts['cpu']}, {facts['platform']}. For research, not for the clinic."
    body = f"<h1>{html.escape(title)}</h1><p>{html.escape(by)}</p>{''.join(parts)}{_provenance(made, numbers)}"
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _section(one: Section, numbers: Mapping[str, int], *, pictures: bool) -> str:
    made = (
        ""
        if one.made_by is None
        else f"{one.made_by.name} of step {numbers[one.made_by.of.id]} ({one.made_by.of.verb})"
    )
    about = html.escape("; ".join(filter(None, (made, one.about, "" if pictures else "without pictures: too many"))))
    content = "" if one.value is None else html_of(one.value, rows=_MOST_ROWS, pictures=pictures)
    return f"<section><h2>{html.escape(one.name)}</h2><p>{about}</p>{content}</section>"


def _provenance(made: list[Output[Any]], numbers: Mapping[str, int]) -> str:
    """The steps that made the results, in words, and as a script."""
    if not made:
        return ""
    steps = "".join(
        f"<li><strong>{html.escape(one.verb)}</strong> {html.escape(', '.join(listed_fields(one, numbers)))}</li>"
        for one in ancestry(*(output.of for output in made))
    )
    code = html.escape(script(*dict.fromkeys(made), folder=_ARRAYS, writes_arrays=False))
    about = "As a script; arrays that no file holds are in the folder <code>arrays</code> of a saved session:"
    return f"<section><h2>How it was made</h2><ol>{steps}</ol><p>{about}</p><pre>{code}</pre></section>"
