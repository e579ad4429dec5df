"""What Jacobians and forward models say of themselves."""

from collections.abc import Iterator

import numpy as np

from napari_gpubio.core.describe import Fact, Item, Rows, Slices, describes, grid_facts, hottest
from napari_gpubio.probes.forward.result import ForwardModel
from napari_gpubio.probes.jacobians.model import Jacobians


@describes(Jacobians)
def _jacobians(one: Jacobians) -> Iterator[Item]:
    yield from grid_facts(one.domain.shape, one.domain.affine)
    yield Fact("channels", ", ".join(channel.name for channel in one.channels))
    yield Fact("method", one.method)
    rows = [
        {"part": part.name, "unit": part.unit, "channel": channel.name, "label": label,
         "sum": float(part.label_sums[c, m]), "standard_error": float(part.label_errors[c, m])}
        for part in one.parts for c, channel in enumerate(one.channels) for m, label in enumerate(one.labels)
    ]  # fmt: skip
    yield Rows.of("sums by label", rows)
    names = [channel.name for channel in one.channels]
    for part in one.parts:
        values, errors = (np.moveaxis(each, 0, -1) for each in (part.values, part.errors))
        yield Slices(
            part.name, values, one.domain.affine, part.unit, (*"xyz", "channel"), "log", error=errors,
            shows=lambda values: np.nansum(np.abs(values), axis=-1), shown_as=f"|{part.name}| of all channels",
            at=hottest(np.abs(values).sum(axis=-1)), along={"channel": ("channel", names)},
        )  # fmt: skip


@describes(ForwardModel)
def _model(one: ForwardModel) -> Iterator[Item]:
    yield Fact("channels", len(one.pairs))
    yield Fact("wavelengths", ", ".join(f"{wavelength:g}" for wavelength in one.wavelengths_nm), "nm")
    yield Fact("voxels", len(one.voxels))
    rows = [
        {"wavelength_nm": part.wavelength_nm, "channel": channel, "separation_mm": one.separations_mm[p], "label": name,
         "path_mm": part.label_paths_mm[p, m], "standard_error_mm": part.label_errors_mm[p, m]}
        for part in one.parts for p, channel in enumerate(one.channels) for m, name in enumerate(one.label_names)
    ]  # fmt: skip
    yield Rows.of("mean paths by label", rows)
    for part in one.parts:
        total = np.zeros(np.shape(one.head.labels), np.float32)
        np.add.at(total.reshape(-1), one.voxels[part.columns], part.values)
        name = f"mean path of all channels at {part.wavelength_nm:g} nm"
        yield Slices(name, total, one.head.affine, "mm", style="log", at=hottest(total))
