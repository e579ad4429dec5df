"""Results as other programs take them: tables of pandas, labeled arrays of xarray, and arrays by NumPy's protocols."""

from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.describe import Curves, Item, Matrix, Rows, Slices, items_of
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import is_oblique, world_axes_of
from napari_gpubio.core.submodules import extra
from napari_gpubio.core.text import first_of, words_of

Array = npt.NDArray[Any]
_ERROR = "standard error"


class Described(ShortRepr):
    """Base of results that notebooks show, and that can be plotted."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from napari_gpubio.core.pages import html_of

        return html_of(self)

    def plot(self) -> Any:
        """Return a figure of matplotlib with all that can be drawn of it.

        Raises
        ------
        InvalidInput
            If matplotlib is not installed, or nothing of it can be drawn.
        """
        from napari_gpubio.core.plots import plotted

        return plotted(self)


class Tabular(Described):
    """Base of results that are tables, too."""

    __slots__ = ()

    def to_dataframe(self, name: str = "") -> Any:
        """Return one of its tables as a `pandas.DataFrame`.

        Units are in the names of columns (``length_mm``), in a column ``unit``, or else in ``attrs["units"]``.

        Parameters
        ----------
        name
            Of the table; the first one by default.

        Raises
        ------
        InvalidInput
            If it has no such table.
        """
        tables = dict[str, Item]()
        for one in items_of(self):
            if isinstance(one, Rows | Matrix | Curves):
                tables.setdefault(one.name, one)
        if not tables or (name and name not in tables):
            asked = f"no table {name!r}" if name else "no table"
            raise InvalidInput(f"the {words_of(type(self))} has {asked}; it has {first_of([*tables], 12) or 'none'}")
        return frame(tables[name] if name else next(iter(tables.values())))


@singledispatch
def frame(item: Any) -> Any:
    """Return a table of a description as a `pandas.DataFrame`."""
    raise TypeError(f"{type(item).__name__} is no table")


@frame.register
def _(item: Rows) -> Any:
    import pandas as pd

    made = pd.DataFrame({name: list(values) for name, values in item.columns.items()})
    made.attrs["units"] = dict(item.units)
    return made


@frame.register
def _(item: Matrix) -> Any:
    import pandas as pd

    made = pd.DataFrame(np.asarray(item.values), index=[*item.rows], columns=[*item.columns])
    made.attrs |= {"name": item.name, "units": item.unit}
    return made


@frame.register
def _(item: Curves) -> Any:
    lines, (x, x_unit), (y, y_unit) = item.lines, item.x, item.y
    columns: dict[str, Any] = {
        "curve": np.repeat([one.name for one in lines], [len(one.x) for one in lines]),
        x: np.concatenate([[], *(one.x for one in lines)]),
        y: np.concatenate([[], *(one.y for one in lines)]),
    }
    if any(one.error is not None for one in lines):
        errors = (np.full(len(one.x), np.nan) if one.error is None else one.error for one in lines)
        columns[_ERROR] = np.concatenate([[], *errors])
    units = {x: x_unit, y: y_unit, _ERROR: y_unit}
    return frame(Rows(item.name, columns, {name: units[name] for name in columns if name in units}))


class Gridded(Described):
    """Base of results that are volumes or curves, for xarray."""

    __slots__ = ()

    def to_xarray(self) -> Any:
        """Return its volumes and curves as an `xarray.Dataset`.

        Coordinates are the world's, mm, where the axes of the grid follow those of the world, and else voxels; the
        affine is an attribute of each volume, as are units. Standard errors are variables beside the values.

        Raises
        ------
        InvalidInput
            If xarray is not installed.
        """
        return dataset(items_of(self), extra("xarray", "xarray", "to_xarray"))


class GriddedArray(Gridded):
    """Base of results that are one array above all.

    A subclass says in its class line which attribute `numpy.asarray`, `numpy.from_dlpack` and what else takes arrays
    gets of it, without a copy: ``class Dose(GriddedArray, array="values")``.
    """

    __slots__ = ()
    _array: ClassVar[str]

    def __init_subclass__(cls, array: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if array:
            cls._array = array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:  # noqa: FBT001
        return np.array(getattr(self, self._array), dtype, copy=copy)

    @property
    def __array_interface__(self) -> Mapping[str, Any]:
        array = getattr(self, self._array)
        if array is not getattr(self, self._array):  # made anew: nobody would keep its memory
            raise AttributeError("this array is made when it is asked for; use numpy.asarray")
        return dict(np.asarray(array).__array_interface__)

    def __dlpack__(self, **options: Any) -> Any:
        return np.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.asarray(self).__dlpack_device__()


def dataset(items: Iterable[Item], xarray: Any) -> Any:
    """Return the volumes and curves of a description as an `xarray.Dataset`."""
    made = xarray.Dataset()
    for one in items:
        if isinstance(one, Slices):
            made = made.merge(_volume(one, xarray), compat="override", join="outer")
        elif isinstance(one, Curves):
            for line in one.lines:
                name = one.name if len(one.lines) == 1 else f"{one.name}, {line.name}"
                over = f"{one.x[0]} of {name}"
                coordinate = {over: (over, line.x, {"units": one.x[1], "long_name": one.x[0]})}
                about = {"units": one.y[1], "long_name": one.y[0]}
                made[name] = xarray.DataArray(line.y, coordinate, (over,), attrs=about)
                if line.error is not None:
                    made[f"{name}, standard error"] = xarray.DataArray(line.error, coordinate, (over,), attrs=about)
    return made


def _volume(item: Slices, xarray: Any) -> Any:
    affine, grid = np.asarray(item.affine, float), item.axes[: item.grid]
    names, coordinates = dict(zip(grid, grid, strict=True)), dict[str, Any]()
    if not is_oblique(affine):
        world = world_axes_of(affine)
        names = {axis: "xyz"[world[n]] for n, axis in enumerate(grid)}
        for n, axis in enumerate(grid):
            along = affine[world[n], 3] + affine[world[n], n] * np.arange(item.values.shape[n])
            coordinates[names[axis]] = (names[axis], along, {"units": "mm"})
    for name, (axis, values) in item.along.items():
        coordinates[name] = (axis, np.asarray(values))
    dims = [names.get(axis, axis) for axis in item.axes]
    about = {"units": item.unit, "long_name": item.name, "affine": affine.ravel(), "affine_unit": "mm"}
    arrays = {item.name: item.values} | ({} if item.error is None else {f"{item.name}, standard error": item.error})
    return xarray.Dataset(
        {name: xarray.DataArray(values, dims=dims, attrs=about) for name, values in arrays.items()}, coordinates
    )
