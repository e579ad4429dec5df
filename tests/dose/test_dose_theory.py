"""The closed forms themselves against random points: z-scores."""

import numpy as np
import pytest

from napari_gpubio.dose import closed_forms

COUNT, HALF = 2_000_000, 13.5
POINTS = np.random.default_rng(0).uniform(-HALF, HALF, (COUNT, 3))
X, Y, Z = POINTS.T
OBLIQUE = np.array([0.3, -0.5, 0.81]) / np.linalg.norm([0.3, -0.5, 0.81])
LEVELS = np.array([-11.0, -6.0, -1.0, 0.0, 3.3, 8.0, 12.5])
INSIDE_DISC = (X**2 + Y**2 <= 64) & (Z > -6) & (Z < 9)
INSIDE_CONE = (X**2 + Y**2 <= (12 * (Z + 12) / 24) ** 2) & (np.abs(Z) <= 12)
CASES = {
    "ball": (X**2 + Y**2 + Z**2 <= 144, OBLIQUE, lambda t: closed_forms.ball(t, 12.0)),
    "disc across": (INSIDE_DISC, (0.6, 0.8, 0.0), lambda t: closed_forms.disc(t, 8.0, -6.0, 9.0, (0.6, 0.8, 0.0))),
    "disc along": (INSIDE_DISC, (0, 0, 1), lambda t: closed_forms.disc(t, 8.0, -6.0, 9.0, (0, 0, 1))),
    "disc along, down": (INSIDE_DISC, (0, 0, -1), lambda t: closed_forms.disc(t, 8.0, -6.0, 9.0, (0, 0, -1))),
    "disc oblique": (INSIDE_DISC, OBLIQUE, lambda t: closed_forms.disc(t, 8.0, -6.0, 9.0, OBLIQUE)),
    "disc oblique, down": (INSIDE_DISC, -OBLIQUE, lambda t: closed_forms.disc(t, 8.0, -6.0, 9.0, -OBLIQUE)),
    "cone along": (INSIDE_CONE, (0, 0, 1), lambda t: closed_forms.cone_along(t, 12.0, 24.0)),
    "cone across": (INSIDE_CONE, (0, 1, 0), lambda t: closed_forms.cone_across(t, 12.0, 24.0)),
    "box": ((np.abs(POINTS) <= (5, 9, 12)).all(axis=1), OBLIQUE, lambda t: closed_forms.box(t, (10, 18, 24), OBLIQUE)),
    "box along": (
        (np.abs(POINTS) <= (5, 9, 12)).all(axis=1),
        (0, 0, 1),
        lambda t: closed_forms.box(t, (10, 18, 24), (0, 0, 1)),
    ),
}


def check(share, volume):
    expected = np.asarray(volume) / (2 * HALF) ** 3
    z = (share - expected) / np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / COUNT)
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("name", CASES)
def test_solids(name):
    inside, n, volume = CASES[name]
    reach = POINTS @ np.asarray(n)
    check(np.array([(inside & (reach >= t)).mean() for t in LEVELS]), volume(LEVELS))


def test_balls():
    r = np.sqrt(X**2 + Y**2 + Z**2)
    gaussian, fluence = 60 * np.exp(-(r**2) / 128), 10 * np.exp(-0.3 * r) / r
    levels = np.array([15.0, 30.0, 50.0])
    share = np.array([((r <= 10) & (gaussian >= level)).mean() for level in levels])
    check(share, closed_forms.ball_in_gaussian(levels, 10.0, 60.0, 8.0))
    levels = np.array([0.05, 0.1, 1.0])
    share = np.array([((r <= 10) & (fluence >= level)).mean() for level in levels])
    check(share, closed_forms.ball_around_source(levels, 10.0, 10.0, 0.3))
