"""What flows of fibers and routes say of themselves."""

from collections.abc import Iterator

from napari_gpubio.core.describe import Fact, Item, Lines, Matrix, Rows, Slices, describes
from napari_gpubio.fibers.flow.model import MATRICES, Flow, FlowMatrices
from napari_gpubio.fibers.flow.repeats_model import FlowRepeats, RankedTarget
from napari_gpubio.fibers.flow.routes_model import FlowRoutes
from napari_gpubio.fibers.flow.source import SourceFlow
from napari_gpubio.fibers.routes.model import Routes

_RANKED = ("label", "region", "overlap")


def _ranked(one: FlowMatrices | FlowRepeats) -> Rows:
    """Regions that each region reaches, the largest number first."""
    rows = [
        {"source": source, **(row._asdict() if isinstance(row, RankedTarget) else dict(zip(_RANKED, row, strict=True)))}
        for source, label in zip(one.names, one.labels, strict=True)
        for row in one.ranked(int(label))
    ]
    return Rows.of("ranked", rows)


@describes(FlowMatrices)
def _matrices(one: FlowMatrices) -> Iterator[Item]:
    yield Fact("regions", len(one))
    for name, meaning in MATRICES.items():
        yield Fact(name, meaning)
        yield Matrix(name, one.matrix(name), one.names, one.names)
    yield _ranked(one)


@describes(Flow)
def _flow(one: Flow) -> Iterator[Item]:
    yield Fact("flow", one.message)
    yield from _matrices(one)


@describes(FlowRepeats)
def _repeats(one: FlowRepeats) -> Iterator[Item]:
    yield Fact("repeats", one.repeats)
    for what, values in zip(("low", "high"), one.interval(), strict=True):
        yield Matrix(f"overlap, {what} end of its interval", values, one.names, one.names)
    yield _ranked(one)


@describes(SourceFlow)
def _from_source(one: SourceFlow) -> Iterator[Item]:
    yield Fact("flow", one.message)
    yield Rows.of("ranked", [row._asdict() for row in one.ranked()])
    yield Slices("mass", one.flow.mass(1), one.flow.nodes.field.affine, style="log")
    yield from (Fact(what, 100 * share, "%") for what, share in one.flow.endings(1).items())


@describes(Routes, FlowRoutes)
def _routes(one: Routes | FlowRoutes) -> Iterator[Item]:
    yield Fact("from, to", f"{one.source} - {one.target}")
    yield Fact("routes", len(one))
    yield Fact("result", one.message)
    yield Rows("routes", one.columns())
    yield Lines("routes", one.tractogram.points, one.tractogram.offsets)
