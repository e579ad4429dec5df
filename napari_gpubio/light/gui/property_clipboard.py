"""Cells of the optical property table as tab-separated text, as spreadsheets take and give it."""

from collections.abc import Collection

from qtpy.QtCore import Qt

from napari_gpubio.gui.tables import Place
from napari_gpubio.light.gui.property_columns import COLUMNS
from napari_gpubio.light.gui.property_model import PropertyModel


def text_of(model: PropertyModel, cells: Collection[Place]) -> str:
    """Return the smallest block that holds the cells, with all digits, in the unit that is shown."""
    if not cells:
        return ""
    lines = [[_text(model, (row, column), cells) for column in _span(cells, 1)] for row in _span(cells, 0)]
    return "\n".join("\t".join(line) for line in lines) + "\n"


def placed(model: PropertyModel, text: str, cells: Collection[Place]) -> tuple[dict[Place, str], int]:
    """Say where the parts of a text go when it is pasted onto cells.

    The block begins at the first of the cells. A single line goes into each of the rows, a single value into each of
    the cells.

    Returns
    -------
    texts
        Text by place, for cells that can be edited.
    left_out
        How many values of the text lie beyond the table.
    """
    lines = [line.split("\t") for line in text.rstrip("\r\n").splitlines()]
    if not cells or not lines:
        return {}, 0
    if len(lines) == len(lines[0]) == 1:
        return {cell: lines[0][0] for cell in cells if COLUMNS[cell[1]].editable}, 0
    rows = sorted({row for row, _ in cells})
    if len(lines) == 1:
        lines *= len(rows)
    else:
        rows = list(range(rows[0], rows[0] + len(lines)))
    left = min(column for _, column in cells)
    block = {(row, left + step): part for row, line in zip(rows, lines, strict=True) for step, part in enumerate(line)}
    inside = {cell: part for cell, part in block.items() if cell[0] < model.rowCount() and cell[1] < len(COLUMNS)}
    return {cell: part for cell, part in inside.items() if COLUMNS[cell[1]].editable}, len(block) - len(inside)


def _span(cells: Collection[Place], axis: int) -> range:
    numbers = [cell[axis] for cell in cells]
    return range(min(numbers), max(numbers) + 1)


def _text(model: PropertyModel, cell: Place, cells: Collection[Place]) -> str:
    if cell not in cells:
        return ""
    return " ".join(str(model.data(model.index(*cell), Qt.ItemDataRole.EditRole)).split())
