"""What to filter, where, for how long, and what is to be reached."""

import numpy as np
from common import Array

from napari_gpubio.denoise.calibration import calibrate
from napari_gpubio.denoise.checks import head_volume
from napari_gpubio.denoise.kernels.anlm.problem import Problem, make_windows, scale_of
from napari_gpubio.denoise.settings import DenoiseSettings

TARGETS = {  # seconds: 100^3 and 256^3 with data resident on one H200, and on two cores of a CPU
    ("cuda", 100): 5e-3,
    ("cuda", 256): 70e-3,
    ("cpu", 100): 1.7,
    ("cpu", 256): 27.0,
}
SEED_SECONDS = "GPU-ANLM 1.1 s on a 980 Ti"
MOST_FLOAT_VOLUMES = 6  # of memory, and slabs


def make_problem(volume: Array, settings: DenoiseSettings | None = None) -> Problem:
    """What the engine makes of a volume before it filters."""
    chosen = settings or DenoiseSettings()
    windows = make_windows(chosen)
    return Problem(
        values=np.ascontiguousarray(volume / scale_of(volume), np.float32),
        usable=np.ones(volume.shape, np.uint8),
        windows=windows,
        settings=chosen,
        calibration=calibrate(windows, chosen),
    )


def cube(n: int) -> Array:
    """The noisy head, cut or mirrored to n^3 voxels."""
    return head_volume(n, n, n)
