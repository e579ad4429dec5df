"""Columns of the layer table, and how they look."""

from napari_gpubio.gui.tables import Column
from napari_gpubio.light.gui.layers.layer_rows import COEFFICIENTS, UNITS

COLUMNS = (
    Column("name", "Layer", "What the layer is", "papillary d"),
    Column("n", "n", "Refractive index, at least 1", "1.34"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.015"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0; 0 with µa = 0 is glass", "70.77"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1", "0.85"),
    Column("thickness_mm", "d", "Thickness; ∞ or inf for a last layer without end", "0.162"),
)
FIELDS = tuple(column.field for column in COLUMNS)
DIM = "color: #9a9da5;"


def heading(column: Column, unit: str) -> str:
    """The title of a column over its unit."""
    if column.field in COEFFICIENTS:
        return f"{column.title}\n{unit}"
    return f"{column.title}\n{UNITS[unit]}" if column.field == "thickness_mm" else column.title
