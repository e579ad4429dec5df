"""Columns of the optical property table, and how their cells look."""

from collections.abc import Iterable, Mapping, Sequence

from qtpy.QtGui import QColor

from napari_gpubio.gui.tables import MISSING, WRONG, Column
from napari_gpubio.light.gui.property_rows import NUMBERS, PropertyRow

Rgba = Sequence[float]
DIM = QColor("#8b8e95")
LEFT = ("label", "name", "source")  # what stands to the left


COLUMNS = (
    Column("label", "Label", "The label, in its color in the layer", "Label", editable=False),
    Column("name", "Name", "What the label stands for", "gray matter"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.0000"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1"),
    Column("n", "n", "Refractive index, at least 1"),
    Column("musp_per_mm", "µs′", "Reduced scattering coefficient, µs (1 - g)", editable=False),
    Column("source", "Source", "Where the numbers come from", "G. Stran…"),
)
FIELDS = tuple(column.field for column in COLUMNS)


def chips(labels: Iterable[int], colors: Mapping[int, Rgba | None]) -> dict[int, QColor]:
    """Opaque colors of the labels that their layer draws; ``colors`` are RGBA from 0 to 1."""
    drawn = {label: rgba for label in labels if (rgba := colors.get(label)) is not None and float(rgba[3]) > 0}
    return {label: QColor.fromRgbF(*(float(part) for part in rgba[:3])) for label, rgba in drawn.items()}


def background(row: PropertyRow, field: str) -> QColor | None:
    """The color behind a cell: red where something is wrong."""
    return WRONG if row.problem(field) and not row.is_missing(field) else None


def foreground(row: PropertyRow, field: str) -> QColor | None:
    """The color of a cell's text, or None for the theme's: amber where it is missing, or for another wavelength."""
    if row.is_missing(field) or (row.warning and field in NUMBERS):
        return MISSING
    return DIM if field in ("musp_per_mm", "source") else None
