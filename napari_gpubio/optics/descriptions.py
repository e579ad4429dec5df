"""What tissues say of themselves."""

from collections.abc import Iterator
from typing import Any

from napari_gpubio.core.describe import Curves, Fact, Item, Line, Rows, Slices, describes, grid_facts
from napari_gpubio.optics.model import Domain


def rows_of_numbers(name: str, rows: Any) -> Rows:
    """Return the numbers of a result with their errors and units as a table."""
    columns = ("group", "name", "label", "value", "error", "unit", "note")
    return Rows(name, {column: [getattr(row, column) for row in rows] for column in columns})


def curve_items(curves: Any) -> Iterator[Curves]:
    """Yield the curves of a result in layers, each by itself."""
    for one in curves:
        line = Line(one.name, one.at, one.value, one.error)
        name = f"{one.name} over {one.coordinate.lower()}"  # one quantity may be over radius, and over angle
        yield Curves(name, (one.coordinate, one.coordinate_unit), (one.quantity, one.unit), (line,), log=True)


@describes(Domain)
def _domain(one: Domain) -> Iterator[Item]:
    yield from grid_facts(one.shape, one.affine)
    yield Fact("refractive index outside", one.outside_n)
    yield Fact("anisotropic scattering", one.mus_tensor_per_mm is not None)
    yield Slices("label", one.labels, one.affine, style="labels")
    media = [one.medium(label) for label in one.labels_present]
    names = ("label", "name", "mua_per_mm", "mus_per_mm", "g", "n")
    yield Rows("media", {name: [getattr(medium, name) for medium in media] for name in names})
