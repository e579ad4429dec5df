"""Reduced scattering of tissues as a power of the wavelength (Jacques 2013)."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.light.tissue.tables import read_rows, read_source

_TABLE = "scattering.csv"
_REFERENCE_NM = 500.0
_PER_CM = 0.1  # in 1/mm


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

    a_per_mm: float = param(2.0, "µs′ at 500 nm", "Reduced scattering there.", unit="1/mm", minimum=0.0, step=0.1)
    b: float = param(1.0, "Power", "Of the fall with the wavelength.", minimum=0.0, maximum=10.0, step=0.1)
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
    laws = _power_laws()
    if name not in laws:
        raise InvalidInput(f"there is no scattering of {name!r}; choose one of {', '.join(laws)}")
    return laws[name]


@cache
def _power_laws() -> dict[str, PowerLaw]:
    rows, source = read_rows(_TABLE), read_source(_TABLE)
    groups = dict.fromkeys(row["group"] for row in rows)
    means = {f"{group} (mean)": [row for row in rows if row["group"] == group] for group in groups}
    single = {row["tissue"]: [row] for row in rows}
    return {name: _mean(name, members, source) for name, members in (means | single).items()}


def _mean(name: str, rows: list[dict[str, str]], source: str) -> PowerLaw:
    """Mean of reports; a group's is the group's entry in Table 2 of the source."""
    a, b = (float(np.mean([float(row[key]) for row in rows])) for key in ("a_per_cm", "b"))
    of = "" if len(rows) == 1 else f", mean of {len(rows)} reports"
    return PowerLaw(a_per_mm=a * _PER_CM, b=b, name=name, source=source + of)
