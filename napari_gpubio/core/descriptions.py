"""What volumes say of themselves, and results of several parts."""

from collections.abc import Iterator

import numpy as np

from napari_gpubio.core.describe import Fact, Item, Slices, describes, description, grid_facts
from napari_gpubio.core.label_volumes import looks_like_labels
from napari_gpubio.core.operations.kinds import MadeOf
from napari_gpubio.core.operations.volumes import Volume


@describes(MadeOf)
def _made_of(one: MadeOf) -> Iterator[Item]:
    yield from description(getattr(one, one._main))


@describes(Volume)
def _volume(one: Volume) -> Iterator[Item]:
    yield from grid_facts(one.array.shape, one.affine)
    known, values = one.quantity, np.asarray(one.array)
    yield Fact("quantity", known.text if known is not None else "not known")
    finite = values[np.isfinite(values)]
    if len(finite):
        yield Fact("range", f"{finite.min():.4g} to {finite.max():.4g}", known.unit if known is not None else "")
    is_labels, is_light = looks_like_labels(values), known is not None and not known.is_log and "fluence" in known.name
    yield Slices(
        known.text.partition(" (")[0] if known is not None else one.name,
        values,
        one.affine,
        unit="" if known is None else known.unit,
        axes=(*"xyz", "volume")[: values.ndim] if values.ndim != 2 else ("x", "y"),
        style="labels" if is_labels else "log" if is_light else "gray",
        error=None if one.halves is None else np.abs(one.halves[0] - one.halves[1]) / 2,
    )
