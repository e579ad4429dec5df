"""Columns of the optical property table, and how their cells look."""

from collections.abc import Sequence
from dataclasses import dataclass

from qtpy.QtCore import Qt
from qtpy.QtGui import QColor

from napari_gpubio.light.widget.property_rows import PropertyRow

Rgba = Sequence[float]
WRONG, MISSING, DIM = QColor(255, 107, 94, 110), QColor(255, 193, 94), QColor(150, 153, 160)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    field: str
    title: str
    help: str
    editable: bool = True


COLUMNS = (
    Column("label", "Label", "The label, in its colour in the layer", editable=False),
    Column("name", "Name", "What the label stands for"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1"),
    Column("n", "n", "Refractive index, at least 1"),
    Column("musp_per_mm", "µs′", "Reduced scattering coefficient, µs (1 - g)", editable=False),
    Column("source", "Source", "Where the numbers come from"),
)
FIELDS = tuple(column.field for column in COLUMNS)


def chip_colour(colour: Rgba | None) -> QColor | None:
    """The colour of a label, opaque; None where the layer does not draw it."""
    if colour is None or float(colour[3]) == 0:
        return None
    return QColor.fromRgbF(*(float(c) for c in colour[:3]))


def background(row: PropertyRow, field: str) -> QColor | None:
    """The colour behind a cell: red where something is wrong."""
    return WRONG if row.problem(field) and not row.is_missing(field) else None


def foreground(row: PropertyRow, field: str) -> QColor | None:
    """The colour of a cell's text, or None for the theme's."""
    if row.is_missing(field):
        return MISSING
    return DIM if field in ("musp_per_mm", "source") else None


def alignment(field: str) -> Qt.AlignmentFlag:
    """Where the text stands: numbers to the right."""
    side = Qt.AlignmentFlag.AlignLeft if field in ("label", "name", "source") else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter
