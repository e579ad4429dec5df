"""The filter straight from its equations, in float64: slow, and as plain as can be.

Yuan et al. 2018, equations 1 to 3, with what the paper leaves open as the authors' code has it; Koay and Basser 2006.
"""

import itertools

import numpy as np
from scipy.optimize import brentq
from scipy.special import i0e, i1e

from napari_gpubio.denoise.reference import mix_directly

CLOSE, ALIKE = np.float32(0.95), np.float32(0.5)


def window(radii):
    return list(itertools.product(*(range(-r, r + 1) for r in radii)))


def moving(volume, reach):
    """A function that returns the volume at every voxel + d, mirrored at its borders, for d up to a reach."""
    padded = np.pad(volume, reach, mode="symmetric")
    return lambda d: padded[tuple(slice(reach + n, reach + n + size) for n, size in zip(d, volume.shape, strict=True))]


def moved(volume, d):
    """The volume at every voxel + d, mirrored at its borders."""
    return moving(volume, max(map(abs, d)))(d)


class Reference:
    """The filter on one volume; ``windows`` holds the radii, ``calibration`` the meaning of the measured noise.

    Arrays with a first axis of displacements have an entry for each candidate of each voxel.
    """

    def __init__(self, values, settings, windows, calibration, usable=None, sigma=None, disagreement=0.0):
        self.u, self.s, self.windows, self.calibration = np.float64(values), settings, windows, calibration
        self.disagreement = disagreement
        self.usable = np.ones(self.u.shape, bool) if usable is None else usable
        self.sigma = sigma
        boxes = np.stack([*map(moving(self.u, max(windows.box)), window(windows.box))])
        self.mean, self.variance = boxes.mean(axis=0), boxes.var(axis=0, ddof=1)
        self.displacements = [d for d in window(windows.search) if any(d)]
        self.candidates = np.stack([self.alike(d) for d in self.displacements])

    def distances(self, volume, radii, fading=np.inf):
        """Mean squared differences of the patches around voxels i and i + d, which may read beyond the border.

        They fade out as a Gaussian of so many voxels.
        """
        total, at = np.zeros(self.candidates.shape), moving(volume, max(radii) + max(self.windows.search))
        weights = [np.exp(-np.dot(p, p) / (2 * fading**2)) for p in window(radii)]
        for n, d in enumerate(self.displacements):
            for p, weight in zip(window(radii), weights, strict=True):
                total[n] += weight * (at(p) - at(np.add(p, d))) ** 2
        return total / sum(weights)

    def alike(self, d):
        """Whether i + d is a candidate of i."""
        where = [i + n for i, n in zip(np.indices(self.u.shape), d, strict=True)]
        inside = np.all([(i >= 0) & (i < size) for i, size in zip(where, self.u.shape, strict=True)], axis=0)

        def close(volume, least):
            other = moved(volume, d)
            return (volume > least * other) & (other > least * volume)

        a, b, c = close(self.mean, CLOSE), close(self.u.max() - self.mean, CLOSE), close(self.variance, ALIKE)
        rules = {"seed": a | (b & c), "coupe": a & c, "itk": (a | b) & c, "none": np.True_}
        return inside & moved(self.usable, d) & rules[self.s.preselection]

    def noise(self, radii, radius):
        """h^2 of every voxel; 0 without a candidate. A known noise takes the place of its measure."""
        if self.sigma is not None:
            return {1: 4.0, 2: 2.0}[radius] * self.sigma**2
        least = np.where(self.candidates, self.distances(self.u - self.mean, radii), np.inf).min(axis=0)
        return np.where(np.isfinite(least), least, 0.0)

    def estimate(self, radii, h2, fading):
        """Weighted mean of every voxel's candidates and itself, or of their squares."""
        power = 2 if self.s.is_rician else 1
        d = self.distances(self.u, radii, np.inf if self.sigma is None else fading)
        if self.sigma is not None:
            d = np.maximum(d - 2 * self.sigma**2, 0)
        weights = np.where(h2 > 0, np.exp(-d / np.where(h2 > 0, h2, 1)), d == 0) * self.candidates
        if self.s.cutoff:
            weights[d > self.s.cutoff * h2] = 0
        there = np.stack([*map(moving(self.u, max(self.windows.search)), self.displacements)])
        if self.s.skip_zeros:
            weights[there <= 0] = 0
        largest = weights.max(axis=0)
        center = np.where((largest > 0) & (self.s.center == "largest"), largest, 1.0)
        if self.s.skip_zeros:
            center[self.u <= 0] = 0
        total = weights.sum(axis=0) + center
        mean = ((weights * there**power).sum(axis=0) + center * self.u**power) / np.where(total > 0, total, 1)
        return np.where(self.usable, mean, self.u**power)

    def patch(self, radii, factor, radius):
        """Image and noise for one patch, whose radius along the finest axis is this."""
        h2 = np.where(self.usable, self.noise(radii, radius), 0)
        estimate = self.estimate(radii, h2, {1: 0.5, 2: 1.0}[radius])
        variance = h2 / factor if self.sigma is None else self.sigma**2
        if self.s.noise_model == "gaussian":
            return estimate, variance
        if self.sigma is None and self.s.noise_model == "rician":
            variance = rician_variances(estimate, smoothed(variance))
        taken = h2 if self.sigma is None and self.s.noise_model == "rician-simple" else variance
        return np.sqrt(np.maximum(estimate - 2 * taken, 0)), variance

    def run(self):
        """The denoised volume and its noise."""
        patches = zip(self.windows.patches, self.calibration, self.s.radii, strict=True)
        both = [self.patch(*patch) for patch in patches]
        images = [image for image, _ in both]
        if len(images) == 1:
            image = images[0]
        elif self.s.mixing == "mean":
            image = sum(images) / 2
        elif self.s.mixing == "auto" and self.sigma is not None:
            image = self.by_place(*images)
        else:
            image = mix_directly(*images)
        return np.where(self.usable, image, self.u), np.where(self.usable, np.sqrt(both[-1][1]), 0)

    def by_place(self, small, large):
        """The large patch's image, and of the small one's what is more than noise."""
        excess = smoothed(np.where(self.usable, (small - large) ** 2 / self.sigma**2, 0), 2)
        return large + np.maximum(1 - 4 * self.disagreement / np.maximum(excess, 1e-30), 0) * (small - large)


def smoothed(variance, radius=5):
    """Mean of the positive entries within some voxels."""
    out = np.zeros_like(variance)
    for i in np.ndindex(variance.shape):
        near = variance[tuple(slice(max(0, n - radius), n + radius + 1) for n in i)]
        out[i] = near[near > 0].mean() if (near > 0).any() else 0.0
    return out


def magnitude_variance(theta):
    """Variance of a Rician magnitude, in units of the noise's, from its two moments."""
    x = theta**2 / 4
    mean = np.sqrt(np.pi / 8) * ((2 + 4 * x) * i0e(x) + 4 * x * i1e(x))
    return 2 + theta**2 - mean**2


def rician_variances(mean_square, variance):
    def one(m2, v):
        if v == 0:
            return 0.0
        ratio = m2 / v
        if ratio <= 2 / magnitude_variance(0.0):
            return v / magnitude_variance(0.0)
        theta = brentq(lambda t: (2 + t**2) / magnitude_variance(t) - ratio, 0, 1e3) if ratio < 900 else 30.0
        return v / magnitude_variance(theta)

    return np.vectorize(one)(mean_square, variance)
