"""Settings of contrast from names, for tests that go through modes, indices and masks alike."""

import dataclasses

from napari_gpubio.core.settings import kind_of
from napari_gpubio.speckle import settings

MODES = {kind_of(one): one for one in (settings.Spatial, settings.Temporal, settings.SpatioTemporal)}
INDICES = {
    kind_of(one): one
    for one in (
        settings.FlowIndex, settings.Squared, settings.Inverse, settings.InverseCorrelationTime,
        settings.RelativeFlow, settings.NoIndex,
    )
}  # fmt: skip


def settings_with(*, mode="spatial", index="sfi", mask=True, **options):
    """Settings with a mode, an index and a mask by their names; of the options, those that these have."""
    classes = {"mode": MODES[mode], "index": INDICES[index], "mask": settings.Validity if mask else settings.NoMask}
    parts = {
        name: cls(**{f.name: options[f.name] for f in dataclasses.fields(cls) if f.name in options})
        for name, cls in classes.items()
    }
    return settings.ContrastSettings(**parts)
