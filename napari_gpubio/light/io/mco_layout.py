"""How MCML's output files, ``.mco``, are laid out: their blocks, the units in them, and the headings that mark them."""

from dataclasses import dataclass

import numpy as np

from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.settings import LayeredSettings

HEADER = """\
A1 \t# Version number of the file format.

####
# Data categories include:\x20
# InParm, RAT,\x20
# A_l, A_z, Rd_r, Rd_a, Tt_r, Tt_a,\x20
# A_rz, Rd_ra, Tt_ra\x20
####
"""
PARAMETERS, FRACTIONS = "InParm", "RAT"
PARAMETERS_HEADING = "InParm \t\t\t# Input parameters. cm is used."
FRACTIONS_HEADING = "RAT #Reflectance, absorption, transmission. "
FRACTION_NAMES = ("Specular reflectance", "Diffuse reflectance", "Absorbed fraction", "Transmittance")


@dataclass(frozen=True)
class Block:
    """An array in the file.

    Parameters
    ----------
    name
        Its keyword, which is also the name in `LayeredResult`: R, T or A, and by what it is resolved.
    per_mm_unit
        The file's number over ours: what 1/mm, 1/mm^2, 1/mm^3 are in 1/cm, 1/cm^2, 1/cm^3.
    """

    name: str
    per_mm_unit: float

    @property
    def axes(self) -> str:
        """By what it is resolved: letters of r, z, a (angle), l (layer)."""
        return self.name.rpartition("_")[2]

    @property
    def heading(self) -> str:
        """What stands above its numbers, without the last newline."""
        symbol, axes = self.name.split("_")
        if axes == "l":
            return f"{self.name} #Absorption as a function of layer. [-]"
        last = f"n{axes[-1]}-1"
        if len(axes) == 1:
            unit = {"z": "1/cm", "r": "1/cm2", "a": "sr-1"}[axes]
            return f"{self.name} #{symbol}[0], [1],..{symbol}[{last}]. [{unit}]"
        first, second, final = (f"# {symbol}[{row}][0], [{row}][1],..[{row}][{last}]" for row in ("0", "1", "nr-1"))
        what = "[r][z]. [1/cm3]" if axes == "rz" else "[r][angle]. [1/(cm2sr)]."
        return "\n".join((f"# {symbol}{what}", first, second, "# ...", final, self.name))

    def shape(self, medium: LayeredMedium, settings: LayeredSettings) -> tuple[int, ...]:
        """Shape of the array."""
        sizes = {
            "l": len(medium.layers),
            "z": settings.depth_bins,
            "r": settings.radial_bins,
            "a": settings.angle_bins,
        }
        return tuple(sizes[axis] for axis in self.axes)


BLOCKS = (  # in the order that CONV expects
    Block("A_l", 1.0),
    Block("A_z", 10.0),
    Block("Rd_r", 100.0),
    Block("Rd_a", 1.0),
    Block("Tt_r", 100.0),
    Block("Tt_a", 1.0),
    Block("A_rz", 1000.0),
    Block("Rd_ra", 100.0),
    Block("Tt_ra", 100.0),
)
NOT_TALLIED = ("A_z", "A_rz")  # zeros in the file of a run without the absorption map, as GPU-MCML writes them


def angular_ratio(settings: LayeredSettings) -> float:
    """The file's Rd_a and Tt_a over ours.

    MCML divides them by 2 pi sin(a) da, where the solid angle of a bin is 4 pi sin(a) sin(da/2): with 30 angles the
    file's are smaller by 1.1e-4, with one angle by a tenth. Its Rd_ra and Tt_ra have the solid angle itself.
    """
    width = np.pi / 2 / settings.angle_bins
    return float(2 * np.sin(width / 2) / width)
