"""Input files of Monte Carlo eXtreme (MCX), as JSON: read into a case that can be simulated, and written.

What MCX and this engine count differently is turned on the way; see the modules beside this one: `domain`
(positions and unit), `shapes` (voxels of shapes), `source` (kinds of sources), `settings`. What has no
counterpart here is refused with a sentence that names it; what is left out is told in the notes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.io.mcx.domain import MOST_ROWS, McxFrame, frame_of, read_domain, read_frame, write_domain
from napari_gpubio.light.io.mcx.jdata import shown
from napari_gpubio.light.io.mcx.sections import Section, load_json
from napari_gpubio.light.io.mcx.settings import read_settings, write_settings
from napari_gpubio.light.io.mcx.source import read_source
from napari_gpubio.light.io.mcx.source_writer import write_source
from napari_gpubio.light.model import Domain
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source

_MOST_TOLD = 8
# What is read, or changes nothing but how MCX runs and what it saves.
_KEYS = {
    "Session": "ID Photons RNGSeed BCFlags BC DoMismatch DoSpecular DoSaveRef DoNormalize DoSaveVolume DoPartialPath "
    "DoSaveExit DoSaveSeed DoDCS DoAutoThread MaxDetPhoton MinEnergy OutputType OutputFormat SaveDataMask RootPath",
    "Forward": "T0 T1 Dt",
    "Domain": "Media MediaFormat Dim VolumeFile LengthUnit Step OriginType",
    "Optode": "Source Detector",
    "Optode.Source": "Type Pos Dir Param1 Param2 Pattern SrcNum Weight Frequency",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class McxCase:
    """What an MCX file describes.

    Parameters
    ----------
    domain, source, settings, detectors
        What `napari_gpubio.light.simulate` takes.
    notes
        What was changed or left out, in sentences for a person.
    name
        The session's ID, or the file's name.
    """

    domain: Domain
    source: Source
    settings: Settings
    detectors: tuple[Detector, ...]
    notes: tuple[str, ...]
    name: str


def read_mcx(path: str | Path) -> McxCase:
    """Read an MCX input file.

    Parameters
    ----------
    path
        A JSON file. A volume file that it names counts from its folder.

    Returns
    -------
    McxCase
        The world of its domain begins at the corner of the first voxel, axes along the volume's: MCX's position p (from
        0, in voxels) is p times the voxel's edge in mm.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or of another kind, a value is missing or wrong, or something has no
        counterpart.
    """
    path = Path(path)
    root = Section("", load_json(path))
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is refused where it is used
            return _case(root, path)
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error}") from error


def _case(root: Section, path: Path) -> McxCase:
    frame = read_frame(root.section("Domain"))
    session = root.section("Session")
    source, source_notes = read_source(root.section("Optode"), frame)
    detectors, detector_notes = _read_detectors(root.section("Optode"), frame)
    settings, settings_notes = read_settings(session, root.section("Forward"))
    domain, domain_notes = read_domain(root, frame, path.parent)
    return McxCase(
        domain=domain,
        source=source,
        settings=settings,
        detectors=detectors,
        notes=(*domain_notes, *source_notes, *detector_notes, *settings_notes, *_unused(root)),
        name=session.text("ID", path.stem),
    )


def _unused(root: Section) -> list[str]:
    """A note of the keys that this package does not look at."""
    sections = {name: root.section(name) for name in _KEYS} | {
        "Optode.Source": root.section("Optode").section("Source")
    }
    keys = [
        f"{name}.{key}"[:60]
        for name, section in sections.items()
        for key, value in section.fields.items()
        if value and key.lower() not in _KEYS[name].lower().split()
    ]
    more = f" and {len(keys) - _MOST_TOLD} more" if len(keys) > _MOST_TOLD else ""
    return [f"Not used here: {', '.join(keys[:_MOST_TOLD])}{more}."] if keys else []


def _read_detectors(optode: Section, frame: McxFrame) -> tuple[tuple[Detector, ...], tuple[str, ...]]:
    rows = optode.get("Detector")
    rows = [] if rows is None else [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(f"Optode.Detector is {shown(rows)}; give a list of objects with Pos and R")
    sections = [Section(f"Optode.Detector[{number}]", row) for number, row in enumerate(rows)]
    found = tuple(_detector(section, frame) for section in sections if section.number("R") >= 0)
    note = "Detectors with a negative radius take photons away without listing them in MCX; they are left out."
    return found, () if len(found) == len(rows) else (note,)


def _detector(section: Section, frame: McxFrame) -> Detector:
    """A sphere, as MCX has it."""
    position = frame.position_mm(section.numbers("Pos", 3, 3))
    return Detector(position_mm=tuple(position), radius_mm=section.number("R") * frame.unit_mm)


def write_mcx(
    path: str | Path, domain: Domain, source: Source, settings: Settings, detectors: Sequence[Detector] = ()
) -> None:
    """Write an MCX input file that needs no other file; an older one is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.json``.
    domain
        Of cubic voxels and labels. MCX knows no affine: positions and directions are written along the axes of the
        volume, counted from the corner of its first voxel.
    source, settings, detectors
        What is to be simulated. Batches, half buffers and Russian roulette are not written; see
        `napari_gpubio.light.io.mcx.settings.write_settings`.

    Raises
    ------
    InvalidInput
        If voxels are not cubes, MCX lacks the source, a flat detector, gates of different widths or media voxel by
        voxel, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise InvalidInput(f"{path.name} does not end in .json; MCX knows its input by that")
    text = json.dumps(_sections(path.stem, domain, source, settings, tuple(detectors)), indent=1)
    with atomic_write(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def _sections(
    name: str, domain: Domain, source: Source, settings: Settings, detectors: tuple[Detector, ...]
) -> dict[str, Any]:
    frame = frame_of(domain)
    section, shapes = write_domain(domain, frame)
    if len(section["Media"]) + len(detectors) > MOST_ROWS:
        raise InvalidInput(f"there are {len(detectors)} detectors; MCX takes {MOST_ROWS} media and detectors in all")
    session, forward = write_settings(settings, has_detectors=bool(detectors))
    optode = {
        "Source": write_source(source, domain, frame),
        "Detector": [_write_detector(detector, domain, frame) for detector in detectors],
    }
    return {
        "Session": {"ID": name} | session,
        "Forward": forward,
        "Domain": section,
        "Optode": optode,
        "Shapes": shapes,
    }


def _write_detector(detector: Detector, domain: Domain, frame: McxFrame) -> dict[str, Any]:
    """Two keys and no more, or MCX would misread it."""
    if detector.normal is not None:
        raise InvalidInput("MCX has no flat detectors; leave out the normal, for a sphere of the same radius")
    position = domain.world_to_grid(detector.position_mm) / frame.unit_mm
    return {"Pos": position.tolist(), "R": detector.radius_mm / frame.unit_mm}
