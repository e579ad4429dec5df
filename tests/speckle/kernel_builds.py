"""What the kernels are really compiled for: a choice of recipes for each file."""

import numpy as np

from napari_gpubio.speckle import NoiseModel
from napari_gpubio.speckle.kernels.contrast.problem import ContrastRecipe
from tests.speckle.choices import settings_with

DARK = NoiseModel(dark_adu=100.0, gain=0.5, read_noise_adu=2.0)
_WINDOWS = (
    ("u2", {"mask": False}, None),
    ("u2", {}, None),
    ("u2", {"mask": False, "window": 7}, None),
    ("u2", {"window": 9, "index": "relative", "edges": "reflect"}, None),
    ("u1", {"mask": False}, None),
    ("u1", {"window": 3, "index": "none", "edges": "zero"}, None),
    ("u2", {"window": 7, "index": "ict", "edges": "shrink"}, DARK),
    ("u2", {"window": 11, "mask": False}, None),
    ("u2", {"window": 31, "index": "squared", "edges": "reflect"}, DARK),
)
_SEQUENCES = (
    ("u2", {"mask": False}, None),
    ("u1", {"index": "relative"}, None),
    ("u2", {"index": "ict"}, DARK),
)
_DIRECT = (("f4", {}, None), ("f8", {"index": "ict"}, DARK))


def recipes_of(name):
    """Recipes for a file: ``windows``, ``sequences`` or ``direct``; rows that vectors fit, and one that they do not."""
    builds = {"windows": _WINDOWS, "sequences": _SEQUENCES, "direct": _DIRECT}[name]
    mode = "temporal" if name == "sequences" else "spatial"
    for width in (64, 63) if name != "direct" else (64,):
        for dtype, options, noise in builds if width == 64 else builds[1:2]:
            settings = settings_with(mode=mode, **options)
            yield ContrastRecipe(
                settings=settings, noise=noise or NoiseModel(), shape=(64, width), dtype=np.dtype(dtype), baseline=0.1
            )
