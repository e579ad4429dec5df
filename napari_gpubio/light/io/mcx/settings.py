"""What MCX's sections Session and Forward say, to and from `Settings`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.mcx.sections import Section
from napari_gpubio.light.settings import FACES, Settings

_NS = 1e9  # in a second
_MOST_GATES = 100_000
_EVEN = 1e-6  # how much gates may differ and still be of one width, relative
_LETTERS = {"_": "default", "r": "fresnel", "a": "escape", "m": "mirror", "c": "cyclic"}
_MCX_FACES = ("-i", "-j", "-k", "+i", "+j", "+k")  # the order of the letters
_OUR_OUTPUTS = {"x": "fluence rate", "f": "fluence", "e": "absorbed energy"}
_MOST_LISTED = 10**8
_NOT_DONE = {
    "DoDCS": "momentum transfer is not recorded",
    "DoSaveSeed": "photons' seeds are not saved; a photon is known by its number",
}


def read_settings(session: Section, forward: Section) -> tuple[Settings, tuple[str, ...]]:
    """Read the settings.

    MCX does not play Russian roulette unless told to; a file without ``MinEnergy`` gets our default, which is unbiased
    and saves time.

    Returns
    -------
    settings
        Of the same simulation.
    notes
        What a person should know.

    Raises
    ------
    InvalidInput
        If a number is missing or wrong, or photons are to be replayed.
    """
    gates, notes = _read_gates(forward)
    faces, face_notes = _read_faces(session.text("BCFlags", session.text("BC", "")))
    seed, seed_notes = _read_seed(session)
    own = Settings()
    settings = Settings(
        photons=session.whole("Photons", own.photons),
        seed=seed,
        refraction=session.flag("DoMismatch", default=True),
        specular=session.flag("DoSpecular", default=False),
        roulette_threshold=session.number("MinEnergy", 0.0) or own.roulette_threshold,
        exit_map=session.flag("DoSaveRef", default=False),
        max_detected=min(session.whole("MaxDetPhoton", own.max_detected), _MOST_LISTED),
        time_gates_ns=gates,
        faces=faces,
    )
    return settings, (*notes, *face_notes, *seed_notes, *_other_notes(session, settings))


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
    if ratio > _MOST_GATES:
        raise InvalidInput(
            f"Forward asks for {ratio:.3g} time gates; give a larger Dt, for {_MOST_GATES} gates at most"
        )
    count = math.floor(ratio + 0.5)
    if count == 0:
        return (_tidy(start), _tidy(end)), (
            f"Dt is longer than T1 - T0; there is one time gate, {_tidy(end):g} ns long.",
        )
    edges = tuple(_tidy(start + step * edge) for edge in range(count + 1))
    if abs(ratio - count) <= 1e-3:
        return edges, ()
    return edges, (f"T1 - T0 is no multiple of Dt; the time gates end at {edges[-1]:g} ns, as MCX's do.",)


def _tidy(seconds: float) -> float:
    """Nanoseconds, without the noise of binary fractions."""
    return float(f"{seconds * _NS:.12g}")


def _read_faces(letters: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    flags = letters.lower()
    if len(flags) > 12 or any(letter not in _LETTERS for letter in flags[:6]) or set(flags[6:]) - {"0", "1"}:
        raise InvalidInput(
            f"Session.BCFlags is {letters[:40]!r}; give a letter of {' '.join(_LETTERS)} for each of the faces "
            "-x, -y, -z, +x, +y, +z, and then 0 or 1 for each"
        )
    rules = dict(zip(_MCX_FACES, flags[:6].ljust(6, "_"), strict=True))
    note = "Whole faces cannot be detectors here; the last six letters of BCFlags are not used."
    return tuple(_LETTERS[rules[face]] for face in FACES), (note,) if "1" in flags[6:] else ()


def _read_seed(session: Section) -> tuple[int, tuple[str, ...]]:
    if isinstance(session.get("RNGSeed"), str):
        raise InvalidInput(f"Session.RNGSeed is {session.text('RNGSeed')[:60]!r}, a replay of photons; give an integer")
    seed = session.whole("RNGSeed", -1)
    if seed >= 0:
        return seed, ()
    own = Settings().seed
    return own, (f"MCX would take a seed from the clock (RNGSeed is negative or absent); {own} is used.",)


def _other_notes(session: Section, settings: Settings) -> list[str]:
    notes = []
    if session.get("Photons") is None:
        notes.append(f"Session.Photons is absent; {settings.photons} photons are used.")
    if settings.refraction and not settings.specular:
        notes.append("DoSpecular is off, as it is by default in MCX: light enters without specular loss.")
    output = session.text("OutputType", "x").lower()
    if output not in _OUR_OUTPUTS:
        notes.append(f"OutputType {output[:20]!r} is not made; there are {', '.join(_OUR_OUTPUTS.values())}.")
    if not session.flag("DoNormalize", default=True):
        notes.append("DoNormalize is off; results are per launched photon all the same.")
    return notes + [f"{key}: {what}." for key, what in _NOT_DONE.items() if session.get(key)]


def write_settings(settings: Settings, *, has_detectors: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sections Session (without its ID) and Forward.

    Russian roulette is left out: ours does not change what comes out on average, MCX's does. Batches and half buffers
    are not known to MCX.

    Raises
    ------
    InvalidInput
        If time gates are of different widths.
    """
    edges = np.array(settings.time_gates_ns)
    widths = np.diff(edges)
    if np.ptp(widths) > _EVEN * widths.mean():
        raise InvalidInput(f"the time gates are {_told(edges.tolist())} ns; MCX has gates of one width only")
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
        session["BCFlags"] = _letters(settings.faces)
    return session, {"T0": edges[0] / _NS, "T1": edges[-1] / _NS, "Dt": float(widths.mean()) / _NS}


def _letters(faces: Sequence[str]) -> str:
    letter_of = {rule: letter for letter, rule in _LETTERS.items()}
    rule_of = dict(zip(FACES, faces, strict=True))
    return "".join(letter_of[rule_of[face]] for face in _MCX_FACES)


def _told(edges: Sequence[float]) -> str:
    """The edges of time gates for an error, not too many."""
    told = ", ".join(f"{edge:g}" for edge in edges[:6])
    return f"{told}, …" if len(edges) > 6 else told
