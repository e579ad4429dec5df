"""What the tests of the mode "fluence" share: two halves of the photons of a run, and their results."""

import numpy as np

from tests.denoise.gui.panel_samples import AFFINE, add_volume

SHAPE = (24, 22, 20)
BOTH = "fluence even + odd"
SIZES = (1, 1, 2)  # of AFFINE


def half(seed, shape=SHAPE):
    """Counts of half of the photons of a beam along z."""
    x, y, z = np.indices(shape)
    truth = np.exp(-0.12 * z - 0.01 * (np.square(x - shape[0] / 2) + np.square(y - shape[1] / 2)))
    return (np.random.default_rng(seed).poisson(20 * truth) / 20).astype(np.float32)


EVEN, ODD = half(0), half(1)


def add_halves(viewer, affine=AFFINE, even=EVEN, odd=ODD):
    """The odd half, hidden, and the even one, which is the image."""
    add_volume(viewer, odd, affine, "fluence odd", visible=False)
    return add_volume(viewer, even, affine, "fluence even")


def made(viewer, name=BOTH):
    """The denoised image, the residual, the noise that is left and the scale."""
    titles = ("denoised {}", "residual {}", "noise left in {}", "scale (mm) of {}")
    return [viewer.layers[title.format(name)] for title in titles]
