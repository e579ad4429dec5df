"""What do records cost: a draft and its id, its JSON and script, a session of 50 layers, and a step of undo."""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import Row, argument_parser, header, header_lines, line, publish, result_path, table, timed

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.operations import (
    HeldVolume,
    Shown,
    State,
    Store,
    Volume,
    from_graph,
    graph,
    open_session,
    save_session,
    script,
)
from napari_gpubio.denoise.operations import Denoise
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.operations import HeldTensors
from napari_gpubio.fibers.operations import Track
from napari_gpubio.fibers.seeds import AtPoints

LAYERS, SIDE = 50, 16


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    device = choose_device("cpu")
    rows = [*_rows()]
    facts = header(quick=False)
    text = ["# What records cost", "", *header_lines(facts), "", "Best of several runs, median beside it.", ""]
    text += table(("what", "best", "median"), [line(row["what"], row["best"], row["median"]) for row in rows])
    path = result_path(options.json, "records", facts["date"], device)
    publish(path, {**facts, "rows": rows}, "\n".join(text) + "\n")


def _rows() -> Iterator[Row]:
    store, repeats = Store(), 200
    cube = np.zeros((SIDE,) * 3 + (6,))
    field = TensorField(tensors=cube, mask=np.ones((SIDE,) * 3, bool), affine=np.eye(4))
    track = Track(field=HeldTensors.of(field, store=store), seeds=AtPoints(seed=((1.0, 2.0, 3.0),)))
    drafts = iter(range(10**9))

    def draft() -> str:
        return dataclasses.replace(track, seeds=AtPoints(seed=((1.0, 2.0, float(next(drafts))),))).id

    yield _row("a draft of tracking with another seed, and its id", draft, repeats)
    yield _row("its JSON, and back", lambda: from_graph(graph(track)), repeats)
    with tempfile.TemporaryDirectory() as folder:
        yield _row("its script", lambda: script(track, folder=Path(folder), store=store), repeats)
        state, path = _many_layers(store), Path(folder) / "s.zip"
        yield _row(f"a session of {LAYERS} layers, saved", lambda: save_session(path, state, store), 5)
        yield _row("the same, opened without running anything", lambda: open_session(path, Store()), 5)


def _volume(n: int, store: Store) -> HeldVolume:
    array = np.random.default_rng(n).random((SIDE,) * 3).astype(np.float32)
    return HeldVolume.of(Volume(array=array, affine=np.eye(4)), store)


def _many_layers(store: Store) -> State:
    made = [Denoise(image=_volume(n, store)) for n in range(LAYERS)]
    return State(tuple(Shown(one.output(), f"layer {n}", "cpu", "0" * 32) for n, one in enumerate(made)))


def _row(what: str, work: Callable[[], object], repeats: int) -> Row:
    found = timed(work, repeats)
    return {"what": what, "best": _time(found.seconds), "median": _time(found.median), "seconds": found.seconds}


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


if __name__ == "__main__":
    main()
