"""What the tests of the layered engine's physics hold its numbers against."""

import iadpython
import numpy as np

from tests.light.voxel_samples import check_z

COARSE = {"radial_bins": 20, "depth_bins": 20}


def check_within(estimate, reference, reference_error=0.0):
    """A number is so many standard errors from a reference, at most."""
    check_z(estimate.z_score(reference, reference_error), 1.0)


def adding_doubling(points, albedo, depth, g, n, slide):
    """Total reflectance and transmittance of a slab between two glass slides; without them where their n is 1."""
    sample = iadpython.Sample(a=albedo, b=depth, g=g, n=n, n_above=slide, n_below=slide, quad_pts=points)
    return np.array(sample.rt()[:2])
