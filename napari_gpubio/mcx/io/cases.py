"""Input files of Monte Carlo eXtreme (MCX): read into a case that can be simulated, and written as JSON.

What MCX and this engine count differently is turned on the way; see the modules beside this one: `domain`
(positions and unit), `shapes` (voxels of shapes), `source` (kinds of sources), `inp` (files of lines). What has no
counterpart here is refused with a sentence that names it; notes list what is left out.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import write_text
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.text import first_of
from napari_gpubio.light.settings import FACES, LightSettings
from napari_gpubio.mcx.io.domain import MAX_ROWS, McxFrame, frame_of, inside, read_domain, read_frame, write_domain
from napari_gpubio.mcx.io.jdata import Section, shown
from napari_gpubio.mcx.io.output import MAX_TRAJECTORIES, OUTPUTS, REPLAYS, McxCase
from napari_gpubio.mcx.io.root import read_root
from napari_gpubio.mcx.io.several_sources import read_sources, write_sources
from napari_gpubio.optics.detectors import AnyDetector, Detector, FaceDetector
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.smooth_surface import entered_surface
from napari_gpubio.optics.sources import AnySource, Source, all_sources, one_or_all

_MAX_NAMED = 8
# What is read, or changes nothing but how MCX runs and what it saves.
_KEYS = {
    "Session": "ID Photons RNGSeed BCFlags BC DoMismatch DoSpecular DoSaveRef DoNormalize DoSaveVolume DoPartialPath "
    "DoSaveExit DoSaveSeed DoDCS DoAutoThread MaxDetPhoton MinEnergy OutputType OutputFormat SaveDataMask DebugFlag",
    "Forward": "T0 T1 Dt",
    "Domain": "Media MediaFormat Dim VolumeFile LengthUnit Step OriginType InverseCDF CacheBoxP0 CacheBoxP1",
    "Optode": "Source Detector",
    "Optode.Source": "Type Pos Dir Param1 Param2 Pattern SrcNum SrcID Weight Frequency Omega AngleInverseCDF",
}


@reads_file
def read_mcx(path: str | Path, source_number: int | None = None) -> McxCase:
    """Read an MCX input file.

    Parameters
    ----------
    path
        A JSON file, or one of lines (``.inp``). A volume file that it names counts from its folder.
    source_number
        What to take of a file with several sources, as MCX's option srcid: 0 for all of them together, which is
        usual, -1 for a result of each, or the number of one, from 1.

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
    return _case(read_root(path), path, source_number)


@reads_file
def files_of_mcx(path: str | Path) -> tuple[Path, ...]:
    """Return an MCX input file, and those of the volume and of patterns that it names; errors as of `read_mcx`."""
    path = Path(path)
    return path, *_named_files(read_root(path), path.parent)


def _case(root: Section, path: Path, source_number: int | None) -> McxCase:
    frame = read_frame(root.section("Domain"))
    session = root.section("Session")
    found = read_sources(root.section("Optode"), frame, path.parent, source_number)
    detectors, numbers, detector_notes = _read_detectors(root.section("Optode"), frame)
    faces = _read_face_detectors(session)
    settings, settings_notes = read_settings(session, root.section("Forward"))
    domain, domain_notes = read_domain(root, frame, path.parent)
    frequency_mhz = _frequency_mhz(_first_source(root))
    notes = (*found.notes, *detector_notes, *settings_notes, *_frequency_notes(frequency_mhz, _output_type(session)))
    if domain.mua_per_mm is not None and (faces or detectors):
        notes += ("The list of detected photons has no ppath and w0: absorption differs voxel by voxel.",)
    only_trajectories = _has_debug_flag(session, "T")
    return McxCase(
        domain=domain,
        source=found.source,
        patterns=found.patterns,
        separately=found.separately,
        settings=settings,
        detectors=(*faces, *detectors),  # in this order: MCX asks for the face first
        inputs=(path, *_named_files(root, path.parent)),
        detector_numbers=(*(-1 for _ in faces), *numbers),
        notes=(*domain_notes, *notes, *_specular_notes(session, domain), *_unused(root)),
        name=session.text("ID", path.stem),
        output_type=_output_type(session),
        output_format=session.text("OutputFormat", "jnii").lower(),
        frequency_mhz=frequency_mhz,
        trajectories=only_trajectories or _has_debug_flag(session, "M"),
        saves_volume=session.flag("DoSaveVolume", default=True) and not only_trajectories,
        saves_photons=session.flag("DoPartialPath", default=True) and not only_trajectories,
    )


def _specular_notes(session: Section, domain: Domain) -> tuple[str, ...]:
    """What MCX does where the file does not say if light is reflected on its way in, and it might be."""
    is_open = session.get("DoSpecular") is None and session.flag("DoMismatch", default=True)
    matters = domain.n is not None or any(medium.n != domain.outside_n for medium in domain.media)
    return ("DoSpecular is absent: as in MCX, light enters without specular loss.",) if is_open and matters else ()


def _named_files(root: Section, folder: Path) -> Iterator[Path]:
    """Files of the volume and of patterns."""
    if name := root.section("Domain").text("VolumeFile", ""):
        yield inside(folder, name, "Domain.VolumeFile")
    sources = root.section("Optode").get("Source")
    for source in sources if isinstance(sources, list) else [sources]:
        pattern = Section("Optode.Source", source if isinstance(source, dict) else {}).get("Pattern")
        pattern = pattern if isinstance(pattern, dict) else {}
        named = (data for key, data in pattern.items() if key.lower() == "data" and isinstance(data, str))
        yield from (inside(folder, data, "Optode.Source.Pattern.Data") for data in named)


def _has_debug_flag(session: Section, letter: str) -> bool:
    """Whether DebugFlag has a letter (M: trajectories, too; T: nothing else), or as a number its bit."""
    flag = session.get("DebugFlag")
    if isinstance(flag, (int, float)):
        return bool(session.whole("DebugFlag") & _DEBUG_BITS[letter])
    return letter in session.text("DebugFlag", "").upper()


def _frequency_mhz(source: Section) -> float | None:
    """Modulation frequency, which MCX has in Hz; in an example of its own, as an angular frequency in rad/s."""
    hertz = source.number("Frequency", 0.0) or source.number("Omega", 0.0) / (2.0 * math.pi)
    if not hertz >= 0:
        raise InvalidInput(f"Optode.Source.Frequency is {hertz:g} Hz; it must not be negative")
    return hertz / 1e6 or None


def _frequency_notes(frequency_mhz: float | None, output: str) -> tuple[str, ...]:
    if not frequency_mhz or output == "r":
        return ()
    return ("The source's Frequency is not used: results are those of a pulse or of steady light.",)


def _first_source(root: Section) -> Section:
    """The section of the source, or of the first of several."""
    source = root.section("Optode").get("Source")
    first = source[0] if isinstance(source, list) and source else source
    return Section("Optode.Source", first if isinstance(first, dict) else {}, root.fields)


def _unused(root: Section) -> list[str]:
    """A note of the keys that this package does not look at."""
    sections = {name: root.section(name) for name in _KEYS} | {"Optode.Source": _first_source(root)}
    keys = [
        f"{name}.{key}"[:60]
        for name, section in sections.items()
        for key, value in section.fields.items()
        if value and key.lower() not in _KEYS[name].lower().split()
    ]
    return [f"Not used here: {first_of(keys, _MAX_NAMED)}."] if keys else []


def _read_detectors(optode: Section, frame: McxFrame) -> tuple[tuple[Detector, ...], tuple[int, ...], tuple[str, ...]]:
    """Detectors, their numbers in the file from 1, and notes."""
    rows = optode.get("Detector")
    rows = [] if rows is None else [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(f"Optode.Detector is {shown(rows)}; give a list of objects with Pos and R")
    sections = [Section(f"Optode.Detector[{number}]", row) for number, row in enumerate(rows)]
    found = {
        number: Detector(
            position_mm=tuple(frame.position_mm(section.numbers("Pos", 3, 3))), radius_mm=radius * frame.unit_mm
        )
        for number, section in enumerate(sections, 1)
        if (radius := section.number("R", 0.0)) > 0
    }
    lost = (
        f"{len(rows) - len(found)} of {len(rows)} detectors have no radius above 0 (negative ones take photons away "
        "without listing them in MCX); they are left out."
    )
    return tuple(found.values()), tuple(found), () if len(found) == len(rows) else (lost,)


def write_mcx(
    path: str | Path,
    domain: Domain,
    source: Source | Sequence[Source],
    settings: LightSettings,
    detectors: Sequence[AnyDetector] = (),
    *,
    patterns: npt.NDArray[Any] | None = None,
) -> None:
    """Write an MCX input file that needs no other file; an older one is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.json``.
    domain
        Of cubic voxels, at whose faces MCX reflects light (a note says where `Source.entry` differs). MCX knows no
        affine: positions and directions are written along the axes of the volume, counted from the corner of its first
        voxel. Of a domain with properties voxel by voxel the labels are not written; MCX keeps such properties in half
        precision.
    source, settings, detectors
        What is to be simulated; several sources must be of one kind. Batches, half buffers and Russian roulette are not
        written; see `napari_gpubio.mcx.io.cases.write_settings`.
    patterns
        Patterns that share photons, shape (K, rows, columns), on the rectangle of a single source of kind ``planar`` or
        ``pattern``.

    Raises
    ------
    InvalidInput
        If voxels are not cubes, MCX lacks the source, a flat detector, gates of different widths or the table of the
        phase function, there are patterns and no single rectangle for them, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise InvalidInput(f"{path.name} does not end in .json; MCX knows its input by that")
    made = _sections(path.stem, domain, one_or_all(all_sources(source)), settings, tuple(detectors), patterns)
    smooth = (entered_surface(domain.labels, domain.affine, one) is not None for one in all_sources(source))
    if settings.specular and settings.refraction and any(smooth):
        note("MCX reflects light at the faces of voxels, also where it enters through the smoothed surface here")
    text = json.dumps(made, indent=1)
    write_text(path, text + "\n")


def _sections(
    name: str,
    domain: Domain,
    source: AnySource,
    settings: LightSettings,
    detectors: tuple[AnyDetector, ...],
    patterns: npt.NDArray[Any] | None,
) -> dict[str, Any]:
    frame = frame_of(domain)
    section, shapes = write_domain(domain, frame)
    if len(section["Media"]) + len(detectors) > MAX_ROWS:
        raise InvalidInput(f"there are {len(detectors)} detectors; MCX takes {MAX_ROWS} media and detectors in all")
    session, forward = write_settings(settings, has_detectors=bool(detectors))
    placed = [detector for detector in detectors if isinstance(detector, Detector)]
    if len(placed) < len(detectors):
        faces = {detector.face for detector in detectors if isinstance(detector, FaceDetector)}
        flags = session.get("BCFlags", "_" * 6)
        session["BCFlags"] = flags + "".join(str(int(face in faces)) for face in _MCX_FACES)
    optode = {
        "Source": write_sources(source, domain, frame, patterns),
        "Detector": [_write_detector(detector, domain, frame) for detector in placed],
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


_NS = 1e9  # in a second
_MAX_GATES = 100_000
_EVEN = 1e-6  # how much gates may differ and still be of one width, relative
_LETTERS = {"_": "default", "r": "fresnel", "a": "escape", "m": "mirror", "c": "cyclic"}
_MCX_FACES = ("-i", "-j", "-k", "+i", "+j", "+k")  # the order of the letters
_MAX_LISTED = 10**8
_DEBUG_BITS = {"M": 2, "T": 8}  # of DebugFlag as a number
_NOT_DONE = {
    "DoSaveRef": "the map of escaping light is kept in run.npz only, by the voxels of tissue that light left, and "
    "not written into the volume",
    "SaveDataMask": "it is not used; of each detected photon detid, ppath, p, v and w0 are listed, and not nscat",
    "DoDCS": "momentum transfer is not recorded",
    "DoSaveSeed": "photons' seeds are not saved; a photon is known by its number",
}


def read_settings(session: Section, forward: Section) -> tuple[LightSettings, tuple[str, ...]]:
    """Read the settings, and notes about them; a replay of photons is refused.

    MCX plays Russian roulette only on request; a file without ``MinEnergy`` gets our default, which is unbiased and
    saves time.
    """
    gates, notes = _read_gates(forward)
    seed, seed_notes = _read_seed(session)
    own = LightSettings()
    settings = LightSettings(
        photons=session.whole("Photons", own.photons),
        seed=seed,
        refraction=session.flag("DoMismatch", default=True),
        specular=session.flag("DoSpecular", default=False),
        roulette_threshold=session.number("MinEnergy", 0.0) or own.roulette_threshold,
        exit_map=session.flag("DoSaveRef", default=False),
        max_detected=min(session.whole("MaxDetPhoton", own.max_detected), _MAX_LISTED),
        time_gates_ns=gates,
        faces=_read_faces(_flags(session)),
    )
    return settings, (*notes, *seed_notes, *_other_notes(session, settings))


def _read_gates(forward: Section) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Edges of the time gates, ns: from T0 in steps of Dt, as many as fit (rounded) until T1."""
    start, end = forward.number("T0", 0.0), forward.number("T1")
    step = forward.number("Dt", end - start)
    if not (0 <= start < end and step > 0):
        raise InvalidInput(
            f"Forward has T0 = {start:g}, T1 = {end:g} and Dt = {step:g} s; times must begin at 0 or later, end later, "
            "and have a width greater than 0"
        )
    ratio = (end - start) / step
    if ratio > _MAX_GATES:
        raise InvalidInput(f"Forward requests {ratio:.3g} time gates; give a larger Dt, for {_MAX_GATES} gates at most")
    count = math.floor(ratio + 0.5)
    if count == 0:
        return (_tidy(start), _tidy(end)), (
            f"Dt is longer than T1 - T0; there is one time gate, {_tidy(end):g} ns long.",
        )
    edges = tuple(_tidy(start + step * edge) for edge in range(count + 1))
    if abs(ratio - count) <= 1e-3:
        return edges, ()
    return edges, (f"T1 - T0 is not a multiple of Dt; the time gates end at {edges[-1]:g} ns, as MCX's do.",)


def _tidy(seconds: float) -> float:
    """Nanoseconds, without the noise of binary fractions."""
    return float(f"{seconds * _NS:.12g}")


def _read_faces(letters: str) -> Any:
    flags = letters.lower()
    if len(flags) > 12 or any(letter not in _LETTERS for letter in flags[:6]) or set(flags[6:]) - {"0", "1"}:
        raise InvalidInput(
            f"Session.BCFlags is {letters[:40]!r}; give a letter of {' '.join(_LETTERS)} for each of the faces "
            "-x, -y, -z, +x, +y, +z, and then 0 or 1 for each"
        )
    rules = dict(zip(_MCX_FACES, flags[:6].ljust(6, "_"), strict=True))
    return tuple(_LETTERS[rules[face]] for face in FACES)  # six


def _flags(session: Section) -> str:
    return session.text("BCFlags", session.text("BC", ""))


def _read_face_detectors(session: Section) -> tuple[FaceDetector, ...]:
    """The faces that the second six letters choose."""
    chosen = {face for face, letter in zip(_MCX_FACES, _flags(session)[6:], strict=False) if letter == "1"}
    return tuple(FaceDetector(face=face, name=f"face {face}") for face in FACES if face in chosen)


def _read_seed(session: Section) -> tuple[int, tuple[str, ...]]:
    if isinstance(found := session.get("RNGSeed"), str) and not found.strip().lstrip("-").isdecimal():
        raise InvalidInput(
            f"Session.RNGSeed is {session.text('RNGSeed')[:60]!r}, a replay of photons from seeds of another program, "
            "which follow other paths here; give an integer: photons are run, and with OutputType J, P or R replayed"
        )
    seed = session.whole("RNGSeed", -1)
    if seed >= 0:
        return seed, ()
    own = LightSettings().seed
    return own, (f"MCX would take a seed from the clock (RNGSeed is negative or absent); {own} is used.",)


def _other_notes(session: Section, settings: LightSettings) -> list[str]:
    notes = []
    if session.get("Photons") is None:
        notes.append(f"Session.Photons is absent; {settings.photons} photons are used.")
    output = _output_type(session)
    if output in REPLAYS:
        notes.append(f"OutputType {output!r}: photons are run, and those detected are replayed; no seeds are needed.")
    elif output not in OUTPUTS:
        notes.append(f"OutputType {output!r} is not made; there are {', '.join((OUTPUTS | REPLAYS).values())}.")
    traced = f"trajectories of {MAX_TRAJECTORIES:,} photons at most are written, 1000 vertices each"
    if _has_debug_flag(session, "T"):
        notes.append(f"DebugFlag T: only the {traced}; no volume and no list of detected photons.")
    elif _has_debug_flag(session, "M"):
        notes.append(f"DebugFlag M: the {traced}.")
    if not session.flag("DoNormalize", default=True):
        notes.append("DoNormalize is off; results are per photon that enters the tissue all the same.")
    return notes + [f"{key}: {what}." for key, what in _NOT_DONE.items() if session.get(key)]


def _output_type(session: Section) -> str:
    """The first letter, which is all that MCX looks at."""
    return session.text("OutputType", "x").lower()[:1] or "x"


def write_settings(settings: LightSettings, *, has_detectors: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sections Session (without its ID) and Forward; time gates must have one width.

    Russian roulette is left out: ours does not change what comes out on average, MCX's does. Batches and half buffers
    are not known to MCX.
    """
    edges = np.array(settings.time_gates_ns)
    widths = np.diff(edges)
    if np.ptp(widths) > _EVEN * widths.mean():
        text = ", ".join(f"{edge:g}" for edge in edges[:6]) + ", …" * (len(edges) > 6)
        raise InvalidInput(f"the time gates are {text} ns; MCX has gates of one width only")
    session: dict[str, Any] = {
        "Photons": settings.photons,
        "RNGSeed": settings.seed,
        "DoMismatch": settings.refraction,
        "DoSpecular": settings.specular,
        "DoSaveRef": settings.exit_map,
        "DoPartialPath": has_detectors,
        "MaxDetPhoton": settings.max_detected,
    }
    if set(settings.faces) != {"default"}:
        letter_of = {rule: letter for letter, rule in _LETTERS.items()}
        rule_of = dict(zip(FACES, settings.faces, strict=True))
        session["BCFlags"] = "".join(letter_of[rule_of[face]] for face in _MCX_FACES)
    return session, {"T0": edges[0] / _NS, "T1": edges[-1] / _NS, "Dt": float(widths.mean()) / _NS}
