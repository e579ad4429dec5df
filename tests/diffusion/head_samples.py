"""Heads whose true brain mask is known: one of formulas, and a scalp put around a real brain."""

import numpy as np
from scipy import ndimage


def dice(a, b):
    return 2 * np.count_nonzero(a & b) / (np.count_nonzero(a) + np.count_nonzero(b))


def with_scalp(b0, brain, sizes, gap_mm, *, bridges):
    """The volume with air of noise and a shell of 6 mm around the brain, patchily bridged to it; and the shell."""
    rng = np.random.default_rng(0)
    out = ndimage.distance_transform_edt(~brain, sampling=sizes)
    shell = (out > gap_mm) & (out <= gap_mm + 6)
    typical = np.median(b0[brain])
    signal = np.where(brain, b0, np.abs(rng.normal(0, 0.02 * typical, b0.shape)))
    patches = np.clip(1 + 2 * ndimage.gaussian_filter(rng.normal(size=b0.shape), 2), 0.2, 2)
    signal[shell] = 0.7 * typical * patches[shell]
    if bridges:
        rough = ndimage.gaussian_filter(rng.normal(size=b0.shape), 1.5) > 0.12
        signal[(out > 0) & (out <= gap_mm) & rough] = 0.6 * typical
    return signal, shell


class Head:
    """Two folded halves and a cerebellum 4 mm inside a bright scalp of 6 mm; a tenth of the gap is bridged.

    The volume covers 150 x 180 x 140 mm; its noise is Rician. ``brain`` and ``scalp`` are the true masks.
    """

    def __init__(self, sizes=(2.5, 2.5, 2.5), *, noise=30.0, bias=0.0, eyes=False):
        rng = np.random.default_rng(0)
        self.sizes = np.array(sizes, float)
        shape = np.round(np.array([150, 180, 140]) / self.sizes).astype(int)
        x, y, z = (
            (np.arange(n) - (n - 1) / 2).reshape([-1 if i == axis else 1 for i in range(3)]) * size
            for axis, (n, size) in enumerate(zip(shape, self.sizes, strict=True))
        )
        folds = 1 + 0.03 * np.sin(x / 4) * np.sin(y / 4) * np.sin(z / 4)
        cerebrum = (x / 55) ** 2 + (y / 70) ** 2 + ((z - 5) / 48) ** 2 < folds
        cerebellum = (x / 38) ** 2 + ((y + 38) / 25) ** 2 + ((z + 38) / 20) ** 2 < folds
        fissure = (np.abs(x) < 1.5) & (z > 25)
        self.brain = cerebrum | cerebellum
        out = ndimage.distance_transform_edt(~self.brain, sampling=self.sizes)
        self.scalp = (out > 4) & (out <= 10)
        signal = 1000.0 * (self.brain & ~(fissure & cerebrum)) + 1500.0 * (
            (x / 8) ** 2 + (y / 20) ** 2 + (z / 10) ** 2 < 1
        )
        signal[self.scalp] = 700
        rough = ndimage.gaussian_filter(rng.normal(size=shape), 3.5 / self.sizes)
        signal[(out > 0) & (out <= 4) & (rough > np.quantile(rough, 0.9))] = 600
        if eyes:
            for side in (-30, 30):
                eye = ((x - side) ** 2 + (y - 72) ** 2 + (z + 28) ** 2 < 12**2) & (out > 3)
                signal[eye] = 3000
                self.scalp |= eye
        signal = signal * 2.0 ** (bias * x / 75)
        self.signal = np.hypot(signal + rng.normal(0, noise, shape), rng.normal(0, noise, shape))

    def judged(self, mask):
        """Dice with the true brain, and how much of the mask is scalp."""
        return dice(mask, self.brain), np.count_nonzero(mask & self.scalp) / np.count_nonzero(mask)
