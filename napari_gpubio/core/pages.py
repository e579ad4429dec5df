"""What results say of themselves as HTML with its pictures inside, for notebooks and reports."""

import base64
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from napari_gpubio.core.describe import Fact, Item, Rows, Slices, description
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.pictures import has_picture, picture, png_of
from napari_gpubio.core.text import words_of

MOST_ROWS, MOST_PICTURES = 12, 12  # of a table, and of a result
_SUMMARIES: Mapping[str, Callable[..., Any]] = {
    "mean": np.nanmean,
    "standard deviation": np.nanstd,
    "least": np.nanmin,
    "largest": np.nanmax,
}
_CELL = 'style="text-align:left"'


def html_of(value: Any, *, title: str = "", rows: int = MOST_ROWS, pictures: bool = True) -> str:
    """Return what a result says of itself as HTML; what cannot be drawn is left out, with the reason.

    Parameters
    ----------
    value
        Any result.
    title
        In the place of the name of its type.
    rows
        The most that are shown of a table.
    pictures
        Whether pictures are among it.
    """
    items = description(value)
    facts = [one for one in items if isinstance(one, Fact)]
    drawn = [one for one in items if has_picture(one)]
    left_out = {id(one) for one in (drawn[MOST_PICTURES:] if pictures else drawn)}
    others = [one for one in items if not isinstance(one, Fact) and id(one) not in left_out]
    if pictures and left_out:
        facts.append(Fact("more pictures", ", ".join(one.name for one in drawn[MOST_PICTURES:])))
    lines = "".join(f"<tr><th {_CELL}>{escape(one.name)}</th><td {_CELL}>{escape(one.text)}</td></tr>" for one in facts)
    shown = "".join(part for one in others for part in _html_of_item(one, rows))
    head = f"<strong>{escape(title or words_of(type(value)))}</strong>"
    return f'<div class="gpubio">{head}<table>{lines}</table>{shown}</div>'


def _html_of_item(item: Item, rows: int) -> Iterator[str]:
    try:
        if has_picture(item):
            data = base64.b64encode(png_of(picture(item))).decode()
            name = escape(_caption(item))
            image = f'<img alt="{name}" src="data:image/png;base64,{data}">'
            yield f"<figure>{image}<figcaption>{name}</figcaption></figure>"
        elif isinstance(item, Rows) and len(item):
            yield _table(item, rows)
    except Exception as error:  # noqa: BLE001 - facts are still worth showing
        yield f"<p>{escape(item.name)} is not shown: {escape(str(error))}</p>"


def _caption(item: Any) -> str:
    unit = f" ({item.unit})" if getattr(item, "unit", "") else ""
    if not isinstance(item, Slices):
        return f"{item.name}{unit}"
    where = ", ".join(map(str, item.center))
    return f"{item.shown_as or item.name}{unit}, through voxel {where}" if item.grid == 3 else f"{item.name}{unit}"


def _table(item: Rows, most: int) -> str:
    names = [f"{name} ({item.units[name]})" if item.units.get(name) else name for name in item.columns]
    rows = [[_cell(values[n]) for values in item.columns.values()] for n in range(min(most, len(item)))]
    more = f"<p>and {len(item) - most:,} more rows</p>" if len(item) > most else ""
    if more and not item.ordered:
        every = [np.asarray(values, float) for values in item.columns.values()]
        rows = [[what, *(_cell(how(values)) for values in every)] for what, how in _SUMMARIES.items()]
        names, more = [f"of {len(item):,}", *names], ""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(item.name)}</caption><tr>{head}</tr>{body}</table>{more}"


def _cell(value: Any) -> str:
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    return short_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
