"""Points of lines for the tests of the numbers behind the streamlines layer."""

import numpy as np


def some_lines(counts=(3, 0, 1, 4), seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(sum(counts), 3)).astype(np.float32)
    return points, np.concatenate([[0], np.cumsum(counts)])
