"""Series with a known truth, and Marchenko-Pastur PCA in plain NumPy, voxel by voxel."""

import numpy as np

from napari_gpubio.diffusion import DiffusionScan
from napari_gpubio.diffusion.phantom.brain import spread_directions

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])


def scan_of(data):
    """A scan with one b = 0 volume; the gradient table takes no part in denoising."""
    n = data.shape[3] - 1
    bvals = np.concatenate([[0.0], np.full(n, 1000.0)])
    directions = np.concatenate([np.zeros((1, 3)), spread_directions(n)])
    return DiffusionScan(data=data, bvals=bvals, directions=directions, affine=AFFINE)


def low_rank(shape, volumes, components, seed=0, level=1000.0):
    """Signals of so many components, shape (*shape, volumes), around a level."""
    rng = np.random.default_rng(seed)
    shares, courses = rng.normal(size=(*shape, components)), rng.normal(size=(components, volumes))
    shares[..., 0], courses[0] = level / 300, 1 + 0.1 * courses[0]
    return 300 * shares @ courses


def noisy(shape, volumes, components, sigma=20.0, seed=0):
    """Truth with Gaussian noise."""
    truth = low_rank(shape, volumes, components, seed)
    return truth, (truth + np.random.default_rng(seed + 1).normal(0, sigma, truth.shape)).astype(np.float32)


def window_places(center, edge, size):
    """Places of a window along an axis: those beyond a border are replaced by places on the other side."""
    radius = edge // 2
    if edge == size:
        return list(range(size))
    places = []
    for offset in range(-radius, radius + 1):
        place = center + offset
        if place < 0:
            place = radius - offset
        elif place >= size:
            place = size - 1 - radius - offset
        places.append(place)
    assert len(set(places)) == edge
    return places


def by_hand(data, voxel, window, estimator="exp2"):
    """Denoised signals of a voxel, noise level, and number of signal components; by singular values."""
    places = [window_places(c, e, s) for c, e, s in zip(voxel, window, data.shape, strict=False)]
    rows = [(x, y, z) for x in places[0] for y in places[1] for z in places[2]]
    matrix = np.array([data[row] for row in rows], np.float64)
    n, m = matrix.shape
    r, q = min(m, n), max(m, n)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    lam = values[::-1] ** 2 / q
    noise, sigma = 0, 0.0
    for p in range(r, 0, -1):  # the last p that passes
        gamma = p / (q if estimator == "exp1" else q - (r - p))
        if (lam[p - 1] - lam[0]) / (4 * np.sqrt(gamma)) < lam[:p].mean():
            noise, sigma = p, np.sqrt(lam[:p].mean())
            break
    kept = r - noise
    row = rows.index(tuple(int(c) for c in voxel))
    return (left[row, :kept] * values[:kept]) @ right[:kept], sigma, kept


def all_by_hand(data, voxels, window, estimator="exp2"):
    """The same of several voxels: arrays of signals, noise levels, and components."""
    found = [by_hand(data, voxel, window, estimator) for voxel in voxels]
    return tuple(np.array(part) for part in zip(*found, strict=True))
