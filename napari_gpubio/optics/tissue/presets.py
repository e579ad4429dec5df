"""Optical properties from the literature, by tissue and wavelength, each row with its source."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.tissue.optics import Composition, compositions, entry_named, read_rows

WIDEST_GAP_NM = 150.0  # a straight line across more could leave out a whole band of hemoglobin or water
HEAD_LAYERS = ("scalp", "skull", "CSF", "gray matter", "white matter")
Presets = tuple[tuple[int, str], ...]  # of labels, by their names
HEAD_TABLES = {  # presets of the layers; a paper without a skull or white matter of its own uses what it used
    "Strangman 2003": ("scalp", "skull", "CSF", "brain", "brain"),
    "Cassano 2019": ("skin", "skull", "CSF", "gray matter", "white matter"),
    "Fang 2009": ("scalp and skull", "scalp and skull", "CSF", "gray matter", "white matter"),
}


class PresetRow(NamedTuple):
    """Properties at one wavelength; mu_a and mu_s in 1/mm."""

    wavelength_nm: float
    mua_per_mm: float
    mus_per_mm: float
    g: float
    n: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A tissue as one publication tabulates it.

    Parameters
    ----------
    tissue
        What it is.
    key
        The publication, short.
    citation
        The publication, and where its numbers were read.
    rows
        From the shortest wavelength to the longest.
    """

    tissue: str
    key: str
    citation: str
    rows: tuple[PresetRow, ...]

    @property
    def name(self) -> str:
        """Tissue and publication, as `preset` knows it."""
        return f"{self.tissue} ({self.key})"

    @property
    def range_nm(self) -> tuple[float, float]:
        """Shortest and longest wavelength."""
        return self.rows[0].wavelength_nm, self.rows[-1].wavelength_nm

    def medium(self, wavelength_nm: float, label: int = 1) -> Medium:
        """Return the properties at a wavelength, for a label.

        Between two rows the properties are linear in the wavelength, which ``source`` notes.

        Raises
        ------
        InvalidInput
            If the wavelength is outside the rows, or between two that are more than `WIDEST_GAP_NM` apart.
        """
        for row in self.rows:
            if row.wavelength_nm == wavelength_nm:
                return self._medium(row, label, f"{wavelength_nm:g} nm")
        for low, high in pairwise(self.rows):
            if low.wavelength_nm < wavelength_nm < high.wavelength_nm:
                if high.wavelength_nm - low.wavelength_nm > WIDEST_GAP_NM:
                    break
                between = f"interpolated between {low.wavelength_nm:g} and {high.wavelength_nm:g} nm"
                return self._medium(_between(low, high, wavelength_nm), label, between)
        known = ", ".join(f"{row.wavelength_nm:g}" for row in self.rows)
        shortest, longest = self.range_nm
        why = "too far apart to interpolate" if shortest < wavelength_nm < longest else "not"
        raise InvalidInput(
            f"{self.name} is known at {known} nm, {why} at {wavelength_nm:g} nm; choose another wavelength or preset, "
            "or type the values"
        )

    def _medium(self, row: PresetRow, label: int, where: str) -> Medium:
        source = "; ".join(filter(None, (self.citation, where, row.note)))
        return Medium(
            label=label, name=self.tissue, mua_per_mm=row.mua_per_mm, mus_per_mm=row.mus_per_mm, g=row.g, n=row.n,
            source=source,
        )  # fmt: skip


def preset_names(wavelength_nm: float | None = None) -> tuple[str, ...]:
    """Names of all presets, or of those that are known at a wavelength."""
    return tuple(name for name, recipe in _recipes().items() if wavelength_nm is None or _knows(recipe, wavelength_nm))


def preset_recipe(name: str) -> Preset | Composition:
    """What gives the properties of a preset at a wavelength.

    Raises
    ------
    InvalidInput
        If there is no such preset.
    """
    return entry_named(_recipes(), name, "preset")


def preset(name: str, wavelength_nm: float, label: int = 1) -> Medium:
    """Optical properties of a tissue at a wavelength.

    Parameters
    ----------
    name
        One of `preset_names`, such as ``"gray matter (Cassano 2019)"``.
    wavelength_nm
        Wavelength, nm.
    label
        The label of the medium.

    Raises
    ------
    InvalidInput
        If there is no such preset, or it is not known at that wavelength.
    """
    return preset_recipe(name).medium(wavelength_nm, label)


def media_at_wavelengths(
    presets: Mapping[int, str], wavelengths_nm: Iterable[float]
) -> dict[float, tuple[Medium, ...]]:
    """Media of several labels at several wavelengths, as `napari_gpubio.light.spectrum` takes them.

    Parameters
    ----------
    presets
        For each label one of `preset_names`.
    wavelengths_nm
        Wavelengths, nm.

    Raises
    ------
    InvalidInput
        If there is no such preset, or it is not known at a wavelength.
    """
    recipes = {label: preset_recipe(name) for label, name in presets.items()}
    return {
        float(wavelength): tuple(recipe.medium(float(wavelength), label) for label, recipe in recipes.items())
        for wavelength in wavelengths_nm
    }


def head_recipes(table: str = "Strangman 2003") -> tuple[Preset, ...]:
    """Presets of the layers of a head (`HEAD_LAYERS`), from the outside in.

    Parameters
    ----------
    table
        A key of `HEAD_TABLES`. Strangman 2003 knows 690 to 830 nm and one brain, Cassano 2019 670 to 1064 nm,
        Fang 2009 630 nm.

    Raises
    ------
    InvalidInput
        If there is no such table.
    """
    tissues = entry_named(HEAD_TABLES, table, "table of a head")
    return tuple(_presets()[f"{tissue} ({table})"] for tissue in tissues)


def head_media(wavelength_nm: float, table: str = "Strangman 2003") -> tuple[Medium, ...]:
    """Properties of scalp, skull, CSF, gray and white matter, with the labels 1 to 5 and these names.

    Raises
    ------
    InvalidInput
        If there is no such table, or it is not known at that wavelength.
    """
    media = []
    for label, (name, recipe) in enumerate(zip(HEAD_LAYERS, head_recipes(table), strict=True), start=1):
        medium = recipe.medium(wavelength_nm, label)
        source = medium.source if medium.name == name else f"{medium.source}; as {medium.name}"
        media.append(dataclasses.replace(medium, name=name, source=source))
    return tuple(media)


def _between(low: PresetRow, high: PresetRow, wavelength_nm: float) -> PresetRow:
    part = (wavelength_nm - low.wavelength_nm) / (high.wavelength_nm - low.wavelength_nm)
    mua, mus, g, n = (a + part * (b - a) for a, b in zip(low[1:5], high[1:5], strict=True))
    return PresetRow(wavelength_nm, mua, mus, g, n, "; ".join(dict.fromkeys(filter(None, (low.note, high.note)))))


def _knows(recipe: Preset | Composition, wavelength_nm: float) -> bool:
    try:
        recipe.medium(wavelength_nm)
    except InvalidInput:
        return False
    return True


@cache
def _recipes() -> dict[str, Preset | Composition]:
    return {**_presets(), **compositions()}


@cache
def _presets() -> dict[str, Preset]:
    citations = {row["key"]: row["citation"] for row in read_rows("sources.csv")}
    rows: dict[tuple[str, str], list[PresetRow]] = {}
    for row in read_rows("presets.csv"):
        wavelength, mua, mus, g, n = (float(row[name]) for name in PresetRow._fields[:-1])
        known = rows.setdefault((row["tissue"], row["source"]), [])
        known.append(PresetRow(wavelength, mua, mus, g, n, row["note"]))
    made = (
        Preset(tissue=tissue, key=key, citation=citations[key], rows=tuple(sorted(known)))
        for (tissue, key), known in rows.items()
    )
    return {preset.name: preset for preset in made}


def presets_of(rows: list[list[str]]) -> Presets:
    """Presets of labels, of the words of a command; InvalidInput if a label is no number."""
    if odd := [label for label, _ in rows if not label.isdecimal()]:
        raise InvalidInput(f"a preset is of the label {odd[0]!r}; give the number of a label, then its preset")
    return tuple((int(label), name) for label, name in rows)
