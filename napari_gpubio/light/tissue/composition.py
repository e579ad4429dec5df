"""Tissues by what they are made of, at any wavelength where the spectra are known."""

from dataclasses import dataclass
from functools import cache

from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.light.model import Medium
from napari_gpubio.light.tissue.chromophores import LONGEST_NM, SHORTEST_NM, Chromophores
from napari_gpubio.light.tissue.scattering import PowerLaw, power_law
from napari_gpubio.light.tissue.tables import read_rows, read_source

_TABLE = "compositions.csv"


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
    source = read_source(_TABLE)
    return {row["tissue"]: _composition(row, source) for row in read_rows(_TABLE)}


def _composition(row: dict[str, str], source: str) -> Composition:
    fractions = ("blood_fraction", "oxygen_saturation", "water_fraction")
    return Composition(
        name=row["tissue"],
        chromophores=Chromophores(**{name: float(row[name]) for name in fractions}),
        scattering=power_law(row["scattering"]),
        source=source,
    )
