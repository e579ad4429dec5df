"""Settings of a voxel simulation, and all that one takes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.detectors import FACES, AnyDetector
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import AnySource, Source, all_sources

FACE_RULES = ("default", "escape", "fresnel", "mirror", "cyclic")
MAX_PHOTONS = 10**12
_STEADY_NS = (0.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class LightSettings(Settings):
    """How photons are traced and what is tallied.

    Parameters
    ----------
    time_gates_ns
        Edges of the time gates, increasing, ns after a photon entered the tissue (or started in it); the path through
        the air before takes no time. Photons older than the last edge are truncated.
    specular
        Whether light that comes from outside is partly reflected and refracted where it enters. Without, it enters in
        its own direction and as a whole, as in MCX by default.
    faces
        What happens at the six outer faces of the grid, in the order of `FACES`: ``escape``, ``fresnel`` (escape or
        reflection at the index step to the outside), ``mirror``, ``cyclic``, or ``default`` (``fresnel`` with
        ``refraction``, else ``escape``). Both faces of an axis must be cyclic, or neither.

    Raises
    ------
    InvalidInput
        If a number is out of range, gates do not increase, or faces do not fit.
    """

    photons: int = param(
        1_000_000, "Photons", "Number of photon packets.", minimum=1, maximum=MAX_PHOTONS, step=100_000
    )
    seed: int = param(
        1, "Seed", "Seed of the random numbers; the same seed gives the same result.", minimum=0, maximum=2**64 - 1
    )
    refraction: bool = param(
        True, "Refraction", "Fresnel reflection and refraction wherever the refractive index changes."
    )
    specular: bool = param(
        True, "Specular loss", "Reflect part of the light where it enters from outside; needs refraction."
    )
    roulette_threshold: float = param(
        1e-4, "Roulette below",
        "Packets of less weight play Russian roulette (survive with chance 1/10, ten times heavier); 0 = never.",
        minimum=0.0, maximum=1.0, advanced=True,
    )  # fmt: skip
    batches: int = param(
        16, "Batches", "Groups of photons whose spread gives the standard errors.", minimum=2, maximum=256,
        advanced=True,
    )  # fmt: skip
    halves: bool = param(
        False, "Half buffers", "Also tally even and odd photons separately, for the denoiser.", advanced=True
    )
    exit_map: bool = param(False, "Map of escaping light", "Diffuse reflectance at the surface.", advanced=True)
    max_detected: int = param(
        1_000_000, "Most detected photons", "How many detected photons are recorded individually.", minimum=0,
        maximum=10**8, advanced=True,
    )  # fmt: skip
    time_gates_ns: tuple[float, ...] = part(
        "Time gates", "Edges of the time gates, from when a photon entered the tissue.", default=_STEADY_NS, unit="ns"
    )
    faces: tuple[str, str, str, str, str, str] = part(
        "Faces", "What happens at the six outer faces of the grid.", default=("default",) * 6, advanced=True
    )

    def check(self) -> None:
        """Raise InvalidInput if gates do not increase, or faces do not fit."""
        edges = np.array(self.time_gates_ns)
        if edges.size < 2 or edges[0] < 0 or (np.diff(edges) <= 0).any():
            raise InvalidInput(
                f"the time gates are {list(self.time_gates_ns)} ns; give at least two edges, from 0 up, each later "
                "than the one before"
            )
        faces = self.faces
        if len(faces) != 6 or any(face not in FACE_RULES for face in faces):
            raise InvalidInput(
                f"faces is {faces}; give six of {', '.join(FACE_RULES)}, in the order {', '.join(FACES)}"
            )
        for axis in range(3):
            if (faces[2 * axis] == "cyclic") != (faces[2 * axis + 1] == "cyclic"):
                raise InvalidInput(f"only one face of axis {'ijk'[axis]} is cyclic; make both cyclic or neither")

    @property
    def gate_count(self) -> int:
        """Number of time gates."""
        return len(self.time_gates_ns) - 1

    @property
    def is_gated(self) -> bool:
        """Whether light is asked for by its time; else it is followed until hardly any is left."""
        return self.time_gates_ns != _STEADY_NS


@dataclass(frozen=True, eq=False, kw_only=True)
class LightCase(ShortRepr):
    """Everything that a simulation takes, as a file of MCX describes it or a phantom comes with it.

    Parameters
    ----------
    domain, source, settings, detectors
        What `napari_gpubio.light.simulate` takes; ``source`` is a tuple where there are several.
    notes
        Messages to the user about what was changed or left out.
    name
        The session's ID, or the file's name.
    patterns
        Patterns on the source's rectangle that share photons, shape (K, rows, columns), for
        `napari_gpubio.light.simulate_patterns`; or None.
    """

    domain: Domain
    source: AnySource
    settings: LightSettings
    detectors: tuple[AnyDetector, ...]
    notes: tuple[str, ...]
    name: str
    patterns: npt.NDArray[np.float64] | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The source, or all of them."""
        return all_sources(self.source)
