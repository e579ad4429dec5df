"""Optical properties from the composition of a tissue: absorption by chromophores, scattering by a power law."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.optics.model import Medium

Entry = TypeVar("Entry")
Floats = npt.NDArray[np.float64]
_DATA = Path(__file__).parent / "data"
_COMMENT, _SOURCE = "#", "# source: "

SHORTEST_NM, LONGEST_NM = 450.0, 1000.0  # where every spectrum is known
HAEMOGLOBIN_G_PER_MOLE = 64_500.0  # of the tetramer, as the molar extinction is tabulated (Prahl)
_PER_CM, _PER_M = 0.1, 0.001  # in 1/mm
_MELANOSOME_PER_MM, _MELANOSOME_POWER = 1.70e12 * _PER_CM, -3.48
_REFERENCE_NM = 500.0


def entry_named(table: Mapping[str, Entry], name: str, what: str) -> Entry:
    """Return the entry of a table of presets, spectra or the like, or raise InvalidInput that lists the names."""
    if name not in table:
        like = [known for known in table if known.startswith(name)] or table
        raise InvalidInput(f"there is no {what} {name!r}; choose one of {'; '.join(like)}")
    return table[name]


def read_rows(name: str) -> list[dict[str, str]]:
    """Rows of a table, by the names of its columns."""
    return list(csv.DictReader(line for line in _lines(name) if not line.startswith(_COMMENT)))


def read_source(name: str) -> str:
    """Where the numbers of a table come from."""
    return next(line.removeprefix(_SOURCE) for line in _lines(name) if line.startswith(_SOURCE))


def _lines(name: str) -> list[str]:
    return (_DATA / name).read_text(encoding="utf-8").splitlines()


_COLUMNS = {
    "oxyhemoglobin": ("hemoglobin.csv", "oxy_per_cm_molar", _PER_CM),
    "deoxyhemoglobin": ("hemoglobin.csv", "deoxy_per_cm_molar", _PER_CM),
    "water": ("water.csv", "mua_per_cm", _PER_CM),
    "fat": ("fat.csv", "mua_per_m", _PER_M),
}
SOURCES = {name: read_source(table) for name, (table, _, _) in _COLUMNS.items()} | {
    "melanosomes": "S. L. Jacques 1998, omlc.org/spectra/melanin: 1.70e12 (wavelength / nm)^-3.48 / cm, skin"
}


def absorption_per_mm(chromophore: str, wavelength_nm: npt.ArrayLike) -> Floats:
    """Absorption of a pure chromophore, linear between the rows of its table.

    Parameters
    ----------
    chromophore
        A key of `SOURCES`.
    wavelength_nm
        Any shape, `SHORTEST_NM` to `LONGEST_NM`.

    Returns
    -------
    ndarray
        The shape of ``wavelength_nm``. 1/mm; for hemoglobin 1/mm per mole and litre, with base e.

    Raises
    ------
    InvalidInput
        If there is no such chromophore, or a wavelength is outside the tables.
    """
    wavelengths = np.asarray(wavelength_nm, np.float64)
    inside = (wavelengths >= SHORTEST_NM) & (wavelengths <= LONGEST_NM)
    if not inside.all():
        raise InvalidInput(
            f"the spectra of the chromophores are known from {SHORTEST_NM:g} to {LONGEST_NM:g} nm, not at "
            f"{wavelengths[~inside].flat[0]:g} nm; choose a wavelength between, or give the absorption itself"
        )
    if chromophore == "melanosomes":
        return np.asarray(_MELANOSOME_PER_MM * wavelengths**_MELANOSOME_POWER)
    entry_named(SOURCES, chromophore, "chromophore")
    return np.asarray(np.interp(wavelengths, *_table(chromophore)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chromophores:
    """What absorbs in a tissue, as fractions of its volume.

    The absorption is the sum of the parts (Jacques 2013, Phys. Med. Biol. 58:R37):
    ``mu_a = B S mu_oxy + B (1 - S) mu_deoxy + W mu_water + F mu_fat + M mu_melanosome``, where ``mu_oxy`` and
    ``mu_deoxy`` are those of whole blood, ln(10) times molar extinction times concentration of hemoglobin.

    Parameters
    ----------
    blood_fraction
        Whole blood, B.
    oxygen_saturation
        Oxygenated share of the hemoglobin, S.
    water_fraction
        All water, also that of the blood, W.
    fat_fraction
        Fat, F.
    melanosome_fraction
        Melanosomes, M; of the epidermis some percent.
    hemoglobin_g_per_l
        Hemoglobin in whole blood.

    Raises
    ------
    InvalidInput
        If a fraction is not between 0 and 1, or water, fat and melanosomes fill more than the whole.
    """

    blood_fraction: float = param(0.0, "Blood", "Whole blood, part of the volume.", minimum=0.0, maximum=1.0, step=0.01)
    oxygen_saturation: float = param(
        0.7, "Saturation", "Oxygenated share of the hemoglobin.", minimum=0.0, maximum=1.0, step=0.05
    )
    water_fraction: float = param(0.0, "Water", "Part of the volume.", minimum=0.0, maximum=1.0, step=0.05)
    fat_fraction: float = param(0.0, "Fat", "Part of the volume.", minimum=0.0, maximum=1.0, step=0.05)
    melanosome_fraction: float = param(
        0.0, "Melanosomes", "Part of the volume; of the epidermis some percent.", minimum=0.0, maximum=1.0, step=0.01
    )
    hemoglobin_g_per_l: float = param(
        150.0, "Hemoglobin", "In whole blood.", unit="g/L", minimum=0.0, maximum=400.0, step=5.0, advanced=True
    )

    def __post_init__(self) -> None:
        check_params(self)
        if (filled := self.water_fraction + self.fat_fraction + self.melanosome_fraction) > 1 + 1e-9:
            raise InvalidInput(
                f"water, fat and melanosomes fill {filled:.4g} of the volume; together they must be at most 1"
            )

    def contributions_per_mm(self, wavelength_nm: npt.ArrayLike) -> dict[str, Floats]:
        """mu_a of each chromophore in the tissue, 1/mm, in the shape of ``wavelength_nm``.

        Raises
        ------
        InvalidInput
            If a wavelength is outside the tables.
        """
        hemoglobin = self.blood_fraction * self.hemoglobin_g_per_l / HAEMOGLOBIN_G_PER_MOLE  # mole per litre of tissue
        amounts = {
            "oxyhemoglobin": hemoglobin * self.oxygen_saturation,
            "deoxyhemoglobin": hemoglobin * (1.0 - self.oxygen_saturation),
            "water": self.water_fraction,
            "fat": self.fat_fraction,
            "melanosomes": self.melanosome_fraction,
        }
        return {name: amount * absorption_per_mm(name, wavelength_nm) for name, amount in amounts.items()}

    def mua_per_mm(self, wavelength_nm: npt.ArrayLike) -> Floats:
        """mu_a of the tissue, 1/mm, in the shape of ``wavelength_nm``.

        Raises
        ------
        InvalidInput
            If a wavelength is outside the tables.
        """
        return np.asarray(sum(self.contributions_per_mm(wavelength_nm).values()))


@cache
def _table(chromophore: str) -> tuple[Floats, Floats]:
    """Wavelengths in nm, and absorption as `absorption_per_mm` gives it."""
    table, column, per_mm = _COLUMNS[chromophore]
    rows = read_rows(table)
    to_base_e = np.log(10.0) if column.endswith("_molar") else 1.0  # molar extinction is for the decadic logarithm
    wavelengths = np.array([float(row["wavelength_nm"]) for row in rows])
    return wavelengths, np.array([float(row[column]) for row in rows]) * per_mm * to_base_e


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """mu_s' = a (wavelength / 500 nm)^-b (Jacques 2013, Phys. Med. Biol. 58:R37, eq. 1).

    Parameters
    ----------
    a_per_mm
        Reduced scattering coefficient at 500 nm, 1/mm.
    b
        Scattering power.
    name, source
        The tissue, and where the numbers come from.

    Raises
    ------
    InvalidInput
        If a number is out of its range.
    """

    a_per_mm: float = param(
        2.0, "µs′ at 500 nm", "Reduced scattering coefficient at 500 nm.", unit="1/mm", minimum=0.0, step=0.1
    )
    b: float = param(1.0, "Power", "Exponent of the decrease with wavelength.", minimum=0.0, maximum=10.0, step=0.1)
    name: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        check_params(self)

    def musp_per_mm(self, wavelength_nm: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """mu_s', 1/mm, in the shape of ``wavelength_nm``.

        Raises
        ------
        InvalidInput
            If a wavelength is not greater than 0.
        """
        wavelengths = np.asarray(wavelength_nm, np.float64)
        if not (np.isfinite(wavelengths) & (wavelengths > 0)).all():
            raise InvalidInput(f"the wavelength is {wavelengths} nm; it must be greater than 0")
        return np.asarray(self.a_per_mm * (wavelengths / _REFERENCE_NM) ** -self.b)


def power_law_names() -> tuple[str, ...]:
    """Tissues with a power law: the means of groups first, then single reports in the order of Jacques' Table 1."""
    return tuple(_power_laws())


def power_law(name: str) -> PowerLaw:
    """Scattering of a tissue.

    Raises
    ------
    InvalidInput
        If there is none of that name.
    """
    return entry_named(_power_laws(), name, "scattering of")


@cache
def _power_laws() -> dict[str, PowerLaw]:
    rows, source = read_rows("scattering.csv"), read_source("scattering.csv")
    groups = dict.fromkeys(row["group"] for row in rows)
    means = {f"{group} (mean)": [row for row in rows if row["group"] == group] for group in groups}
    laws = {}
    for name, members in (means | {row["tissue"]: [row] for row in rows}).items():
        a, b = (float(np.mean([float(row[key]) for row in members])) for key in ("a_per_cm", "b"))
        of = "" if len(members) == 1 else f", mean of {len(members)} reports"  # the entry in Table 2 of the source
        laws[name] = PowerLaw(a_per_mm=a * _PER_CM, b=b, name=name, source=source + of)
    return laws


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """A tissue whose absorption comes from chromophores and whose scattering is a power of the wavelength.

    Parameters
    ----------
    name
        The tissue.
    chromophores
        What absorbs.
    scattering
        mu_s' against the wavelength.
    g, n
        Anisotropy and refractive index.
    source
        Where the composition comes from.

    Raises
    ------
    InvalidInput
        If g or n is out of its range.
    """

    name: str
    chromophores: Chromophores
    scattering: PowerLaw
    g: float = param(0.9, "g", "Mean cosine of the scattering angle.", minimum=-1.0, maximum=0.999, step=0.01)
    n: float = param(1.37, "n", "Refractive index.", minimum=1.0, maximum=10.0, step=0.01)
    source: str = ""

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def range_nm(self) -> tuple[float, float]:
        """Shortest and longest wavelength."""
        return SHORTEST_NM, LONGEST_NM

    def medium(self, wavelength_nm: float, label: int = 1) -> Medium:
        """Return the properties at a wavelength, for a label.

        Raises
        ------
        InvalidInput
            If the wavelength is outside the spectra.
        """
        return Medium(
            label=label,
            name=self.name,
            mua_per_mm=float(self.chromophores.mua_per_mm(wavelength_nm)),
            mus_per_mm=float(self.scattering.musp_per_mm(wavelength_nm)) / (1.0 - self.g),
            g=self.g,
            n=self.n,
            source="; ".join(filter(None, (self.source, f"composition at {wavelength_nm:g} nm"))),
        )


@cache
def compositions() -> dict[str, Composition]:
    """Compositions from the literature, by name."""
    source, fractions = read_source("compositions.csv"), ("blood_fraction", "oxygen_saturation", "water_fraction")
    return {
        row["tissue"]: Composition(
            name=row["tissue"],
            chromophores=Chromophores(**{name: float(row[name]) for name in fractions}),
            scattering=power_law(row["scattering"]),
            source=source,
        )
        for row in read_rows("compositions.csv")
    }
