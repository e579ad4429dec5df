"""What fibers, connectomes, tables and profiles say of themselves."""

from collections.abc import Iterator

import numpy as np

from napari_gpubio.core.describe import Curves, Fact, Item, Line, Lines, Rows, describes
from napari_gpubio.core.describe import Matrix as MatrixItem
from napari_gpubio.tractograms.bundles.profile import Profile
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.connectome.model import COUNT, LENGTH, Connectome
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.connectome import Matrix


@describes(Tractogram)
def _fibers(fibers: Tractogram) -> Iterator[Item]:
    yield Fact("fibers", len(fibers))
    yield Fact("points", len(fibers.points))
    lengths = fibers.lengths_mm()
    if len(fibers):
        yield Fact("length", f"{lengths.mean():.4g} ({lengths.min():.3g} to {lengths.max():.4g})", "mm")
    yield Lines("fibers, colored by direction", fibers.points, fibers.offsets)
    own = {
        name if column is None else f"{name} {column}": values if column is None else values[:, column]
        for name, values in fibers.per_fiber.items()
        for column in ([None] if values.ndim == 1 else range(values.shape[1]))
    }
    yield Rows("fibers", {"points": fibers.counts, LENGTH: lengths, **own}, ordered=False)


@describes(Connectome)
def _connectome(one: Connectome) -> Iterator[Item]:
    yield Fact("regions", len(one))
    yield Fact("fibers", len(one.numbers[LENGTH]) if LENGTH in one.numbers else len(one.fibers))
    yield Fact("connections with a region at both ends", one.assigned)
    for name in (COUNT, *one.numbers):
        yield MatrixItem(name, one.matrix(name), one.names, one.names, "mm" if name == LENGTH else "")


@describes(Matrix)
def _matrix(one: Matrix) -> Iterator[Item]:
    yield Fact("regions", len(one.connectome))
    yield MatrixItem("matrix", one.values, one.connectome.names, one.connectome.names)


@describes(Table)
def _table(one: Table) -> Iterator[Item]:
    yield Fact("rows", len(one))
    yield Rows("table", {name: one.column(name) for name in one.columns})
    if {"node", "mean"} <= {*one.columns}:
        lines = dict[str, list[tuple[float, float]]]()
        for row in one.records():
            name = " ".join(str(row[key]) for key in ("subject", "bundle", "image") if key in row)
            lines.setdefault(name, []).append((row["node"], row["mean"]))
        curves = tuple(Line(name, *np.array(points, float).T) for name, points in lines.items())
        yield Curves("profiles", ("node", ""), ("mean", ""), curves)


@describes(Profile)
def _profile(one: Profile) -> Iterator[Item]:
    yield Fact("from, to", " - ".join(one.ends))
    yield Fact("fibers", len(one.turned))
    yield Fact("weighting", one.weighting)
    nodes = np.arange(len(one))
    places = {f"{axis}_mm": one.line_mm[:, n] for n, axis in enumerate("xyz")}
    yield Rows("profile", {"node": nodes, **places, "mean": one.mean, "sd": one.sd, "se": one.se, "fibers": one.counts})
    yield Curves("along the bundle", ("node", ""), ("mean", ""), (Line("mean ± se", nodes, one.mean, one.se),))
