"""What a forward model works on: a probe of sources and detectors, and a labelled head with tissues.

Positions are world mm once a probe is placed; before that they are in the probe's own coordinate system.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.model import Domain, Medium, checked_labels

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_MAX_OPTODES = 4096
_MAX_LISTED = 8


class Pair(NamedTuple):
    """Indices of a source and a detector of a probe."""

    source: int
    detector: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Probe(ShortRepr):
    """Sources and detectors.

    Parameters
    ----------
    sources, detectors
        Names, each of them once.
    source_positions_mm, detector_positions_mm
        Shape (S, 3) and (D, 3).
    wavelengths_nm
        Wavelengths that are measured.
    pairs
        Sources and detectors that are measured together; None: all of them.
    landmarks_mm
        Positions of named landmarks in the same coordinate system: ``Nz``, ``LPA``, ``RPA``, ``Cz`` ...
    notes
        What a person should know.
    path
        The file it was read from.

    Raises
    ------
    InvalidInput
        If there is no source or no detector, positions are not finite or not as many as names, a name occurs twice, or
        a pair has an index that does not exist.

    Examples
    --------
    >>> probe = Probe(
    ...     sources=("S1",), source_positions_mm=[(0, 0, 90)], detectors=("D1",), detector_positions_mm=[(30, 0, 85)]
    ... )
    >>> probe.all_pairs
    (Pair(source=0, detector=0),)
    """

    sources: tuple[str, ...]
    source_positions_mm: npt.NDArray[np.float64]
    detectors: tuple[str, ...]
    detector_positions_mm: npt.NDArray[np.float64]
    wavelengths_nm: tuple[float, ...] = ()
    pairs: tuple[Pair, ...] | None = None
    landmarks_mm: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    path: Path | None = None

    def __post_init__(self) -> None:
        for kind in ("source", "detector"):
            names = tuple(map(str, getattr(self, f"{kind}s")))
            positions = np.asarray(getattr(self, f"{kind}_positions_mm"), np.float64)
            object.__setattr__(self, f"{kind}s", names)
            object.__setattr__(self, f"{kind}_positions_mm", positions)
            _check_optodes(kind, names, positions)
        object.__setattr__(self, "wavelengths_nm", tuple(map(float, self.wavelengths_nm)))
        if self.pairs is not None:
            pairs = tuple(dict.fromkeys(Pair(int(s), int(d)) for s, d in self.pairs))
            object.__setattr__(self, "pairs", pairs)
            if not pairs:
                raise InvalidInput("the list of pairs is empty; give one at least, or None for all")
            for s, d in pairs:
                if not (0 <= s < len(self.sources) and 0 <= d < len(self.detectors)):
                    raise InvalidInput(
                        f"a pair has source {s} and detector {d}, counted from 0; there are {len(self.sources)} "
                        f"sources and {len(self.detectors)} detectors"
                    )

    @property
    def all_pairs(self) -> tuple[Pair, ...]:
        """Pairs that are measured."""
        if self.pairs is not None:
            return self.pairs
        return tuple(Pair(s, d) for s in range(len(self.sources)) for d in range(len(self.detectors)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all optodes, sources first."""
        return *self.sources, *self.detectors

    @property
    def positions_mm(self) -> Floats:
        """Positions of all optodes, sources first, shape (S + D, 3)."""
        return np.concatenate([self.source_positions_mm, self.detector_positions_mm])

    def separation_mm(self, pair: Pair) -> float:
        """Distance between source and detector of a pair."""
        apart = self.source_positions_mm[pair.source] - self.detector_positions_mm[pair.detector]
        return float(np.linalg.norm(apart))

    def pair_name(self, pair: Pair) -> str:
        """Names of source and detector, as channels are called in fNIRS: ``S1D2``."""
        return f"{self.sources[pair.source]}{self.detectors[pair.detector]}"

    def within(self, longest_mm: float | None) -> "Probe":
        """Return the probe with the pairs that are at most so far apart.

        Raises
        ------
        InvalidInput
            If there are none.
        """
        if longest_mm is None:
            return self
        kept = tuple(pair for pair in self.all_pairs if self.separation_mm(pair) <= longest_mm)
        if not kept:
            shortest = min(map(self.separation_mm, self.all_pairs))
            raise InvalidInput(
                f"no source and detector are within {longest_mm:g} mm; the closest are {shortest:.1f} mm apart"
            )
        return dataclasses.replace(self, pairs=kept)

    def moved(self, positions_mm: Floats, **changes: Any) -> "Probe":
        """Return the probe with its optodes, sources first, at other places."""
        count = len(self.sources)
        return dataclasses.replace(
            self, source_positions_mm=positions_mm[:count], detector_positions_mm=positions_mm[count:], **changes
        )


def _check_optodes(kind: str, names: Sequence[str], positions: Floats) -> None:
    if not names:
        raise InvalidInput(f"the probe has no {kind}s; give at least one")
    if len(names) > _MAX_OPTODES:
        raise InvalidInput(f"the probe has {len(names)} {kind}s; at most {_MAX_OPTODES} are possible")
    if positions.shape != (len(names), 3):
        raise InvalidInput(
            f"there are {len(names)} {kind}s and positions of shape {positions.shape}; give three numbers for each"
        )
    if not np.isfinite(positions).all():
        row = int(np.flatnonzero(~np.isfinite(positions).all(axis=1))[0])
        raise InvalidInput(f"{kind} {names[row]} is at {positions[row].tolist()}; positions must be finite numbers")
    if twice := {name for name in names if list(names).count(name) > 1}:
        raise InvalidInput(f"two {kind}s are named {min(twice)!r}; give each its own name")


def read_probe(path: str | Path) -> Probe:
    """Read a probe: optodes, wavelengths, landmarks, and which source and detector are measured together.

    Parameters
    ----------
    path
        A ``.snirf`` file, a ``.nirs`` file of HOMER, or a ``*_optodes.tsv`` of BIDS-NIRS.

    Raises
    ------
    InvalidInput
        If the file is of another kind, missing or damaged, or has no positions in three dimensions; for SNIRF, if h5py
        is not installed.
    """
    from napari_gpubio.optics.io.bids_nirs import read_optodes_tsv
    from napari_gpubio.optics.io.nirs import read_nirs
    from napari_gpubio.optics.io.snirf import read_snirf

    file = Path(path)
    readers = {".snirf": read_snirf, ".nirs": read_nirs, ".tsv": read_optodes_tsv}
    if file.suffix.lower() not in readers:
        raise InvalidInput(f"{file.name} is no probe that can be read; give a .snirf or .nirs file, or *_optodes.tsv")
    found = readers[file.suffix.lower()](file)
    return Probe(
        sources=found.sources,
        source_positions_mm=found.source_positions_mm,
        detectors=found.detectors,
        detector_positions_mm=found.detector_positions_mm,
        wavelengths_nm=found.wavelengths_nm,
        pairs=tuple(Pair(*pair) for pair in found.pairs) or None,
        landmarks_mm=found.landmarks_mm,
        notes=tuple(note for note in found.notes if "register" not in note),
        path=file,
    )


# -- the head ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class TabulatedTissue:
    """A tissue whose properties are known at some wavelengths only.

    Parameters
    ----------
    media
        Optical properties by wavelength, nm.
    """

    media: Mapping[float, Medium]

    @classmethod
    def of_tables(cls, tables: Mapping[float, Sequence[Medium]]) -> "dict[int, TabulatedTissue]":
        """Return the tissues of all labels from a table of optical properties at each wavelength."""
        labels = dict.fromkeys(medium.label for media in tables.values() for medium in media)
        return {
            label: cls(media={nm: medium for nm, media in tables.items() for medium in media if medium.label == label})
            for label in labels
        }

    def medium(self, wavelength_nm: float, label: int = 1) -> Medium:
        """Return the properties at a wavelength, for a label.

        Raises
        ------
        InvalidInput
            If they are not known there.
        """
        for known, medium in self.media.items():
            if np.isclose(known, wavelength_nm):
                return dataclasses.replace(medium, label=label)
        known_text = ", ".join(f"{wavelength:g}" for wavelength in self.media)
        raise InvalidInput(
            f"label {label} has properties at {known_text} nm, not at {wavelength_nm:g} nm; give a table for it"
        )


Recipe = Any  # a name of a preset, or anything with `medium(wavelength_nm, label)`, or a Medium for all wavelengths


@dataclass(frozen=True, eq=False, kw_only=True)
class Head(ShortRepr):
    """A label volume whose optical properties depend on the wavelength.

    Parameters
    ----------
    labels, affine
        As of `napari_gpubio.optics.Domain`.
    tissues
        What each label is: the name of a preset (`napari_gpubio.optics.tissue.preset_names`), a `Preset`, a
        `Composition`, or a `Medium` that is the same at all wavelengths.
    names
        What each label is called, where it is not as its tissue.
    outside_n
        Refractive index of what surrounds the head.
    path
        The file of the labels.

    Raises
    ------
    InvalidInput
        If a label has no tissue, or there is no such preset.

    Examples
    --------
    >>> from napari_gpubio import optics
    >>> phantom = optics.phantom.load_head_phantom()
    >>> head = Head(labels=phantom.labels, affine=phantom.affine, tissues=head_tissues())
    >>> [round(head.at(nm).medium(1).mua_per_mm, 4) for nm in (760, 830)]
    [0.0175, 0.0191]
    """

    labels: Array
    affine: npt.NDArray[np.float64]
    tissues: Mapping[int, Recipe]
    names: Mapping[int, str] = field(default_factory=dict)
    outside_n: float = 1.0
    path: Path | None = None

    def __post_init__(self) -> None:
        from napari_gpubio.optics.tissue import preset_recipe

        recipes = {
            int(label): preset_recipe(tissue) if isinstance(tissue, str) else tissue
            for label, tissue in self.tissues.items()
        }
        object.__setattr__(self, "tissues", recipes)
        object.__setattr__(self, "labels", checked_labels(self.labels))
        present = np.flatnonzero(np.bincount(self.labels.ravel()))
        if missing := [int(label) for label in present if label and label not in recipes]:
            listed = ", ".join(map(str, missing[:_MAX_LISTED])) + (", …" if len(missing) > _MAX_LISTED else "")
            raise InvalidInput(f"no tissue for label {listed}; name one, or set those voxels to 0 (outside)")

    def media(self, wavelength_nm: float) -> tuple[Medium, ...]:
        """Optical properties of the labels at a wavelength.

        Raises
        ------
        InvalidInput
            If a tissue is not known at that wavelength.
        """
        found = []
        for label, tissue in self.tissues.items():
            fixed = isinstance(tissue, Medium)
            medium = dataclasses.replace(tissue, label=label) if fixed else tissue.medium(wavelength_nm, label)
            if label in self.names:
                medium = dataclasses.replace(medium, name=self.names[label])
            found.append(medium)
        return tuple(found)

    def at(self, wavelength_nm: float) -> Domain:
        """Return the head with its optical properties at a wavelength; errors as `media`."""
        return Domain(
            labels=self.labels, affine=self.affine, media=self.media(wavelength_nm), outside_n=self.outside_n
        )  # fmt: skip


def head_tissues(table: str = "Strangman 2003") -> dict[int, Any]:
    """Tissues of a head with the labels 1 scalp, 2 skull, 3 CSF, 4 gray and 5 white matter, for `Head`.

    Raises
    ------
    InvalidInput
        If there is no such table; see `napari_gpubio.optics.tissue.head_recipes`.
    """
    from napari_gpubio.optics.tissue import head_recipes

    return dict(enumerate(head_recipes(table), start=1))


def head_names() -> dict[int, str]:
    """Names of the labels of `head_tissues`."""
    from napari_gpubio.optics.tissue import HEAD_LAYERS

    return dict(enumerate(HEAD_LAYERS, start=1))


def labels_named(domain: Domain, wanted: Iterable[int | str] | None) -> tuple[int, ...]:
    """Labels given by number or by name, which several may share; None: all that occur.

    Raises
    ------
    InvalidInput
        If there is no such label.
    """
    if wanted is None:
        return domain.labels_present
    names = {label: domain.medium(label).name.casefold() for label in domain.labels_present}
    found = []
    for one in wanted:
        is_name = isinstance(one, str) and not one.isdigit()
        labels = [
            label for label, name in names.items() if (name == str(one).casefold() if is_name else label == int(one))
        ]
        if not labels:
            known = ", ".join(f"{number} ({domain.medium(number).name})" for number in domain.labels_present)
            raise InvalidInput(f"there is no label {one!r}; there are {known}")
        found += labels
    return tuple(dict.fromkeys(found))
