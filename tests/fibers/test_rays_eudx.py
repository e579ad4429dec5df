"""Classic streamlines: which neighbors give the direction, and how many fibers a seed has."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.fibers import Cone, EuDX, Isotropic, Principal, track
from napari_gpubio.fibers.directions import Usual
from napari_gpubio.fibers.run import track_to_file
from napari_gpubio.fibers.seeds import ball, make_launch
from tests.fibers.ray_samples import CALLOSUM, brain

AHEAD = Principal(both_ways=False)
NEAR = EuDX(
    integrator="euler",
    corner_angle_deg=60.0,
    corner_weight=0.5,
    fa_stop=0.1,
    step_mm=0.5,
    precision="double",
    min_length_mm=0.0,
    max_length_mm=40.0,
)
STEPS = 40


def stepped(field, start, direction, settings):
    """Euler steps in world mm, written out: the eight voxels around a point, those that count, and their mean."""
    inverse = np.linalg.inv(field.affine)
    axis, values = field.eigen.vectors[..., 0, :], field.eigen.values
    fa = np.sqrt(1.5 * values.var(axis=-1) * 3 / np.maximum((values**2).sum(axis=-1), 1e-30))
    fa[~field.mask] = 0
    path = [start]
    for _ in range(STEPS):
        x = path[-1] @ inverse[:3, :3].T + inverse[:3, 3]
        low = np.floor(x).astype(int)
        if (low < 0).any() or (low + 1 >= field.shape).any():
            break
        mean, weight = np.zeros(3), 0.0
        for corner in np.ndindex(2, 2, 2):
            at = tuple(low + corner)
            share = np.prod(np.where(corner, x - low, 1 - (x - low)))
            cosine = axis[at] @ direction
            if fa[at] > settings.fa_stop and abs(cosine) >= np.cos(np.radians(settings.corner_angle_deg)):
                mean += share * np.sign(cosine) * axis[at]
                weight += share
        if weight < settings.corner_weight:
            break
        direction = mean / np.linalg.norm(mean)
        path.append(path[-1] + settings.step_mm * direction)
    return np.array(path)


@pytest.mark.parametrize("changes", [{}, {"corner_angle_deg": 25.0}, {"corner_weight": 0.9}], ids=str)
def test_only_near_neighbors_count(changes):
    field, settings = brain(), dataclasses.replace(NEAR, **changes)
    launch = make_launch(field, ball(CALLOSUM, 8.0, 40, seed=3), AHEAD)
    fibers = track(field, launch.points_mm, AHEAD, settings, device="cpu")
    assert len(fibers) > 20
    lengths = set()
    for fiber, seed in zip(fibers, fibers.per_fiber["seed"], strict=True):
        start, direction = (row[0] for row in launch.rays(int(seed), 1))
        path = stepped(field, start, direction, settings)
        both = min(len(path), len(fiber))
        np.testing.assert_allclose(fiber[:both], path[:both], atol=2e-5)
        assert len(fiber) <= len(path) or len(path) == STEPS + 1  # it may end earlier, by FA between voxels
        lengths.add(both)
    assert len(lengths) > 3  # they end at different places


def test_by_default_all_neighbors_count():
    field, seeds = brain(), ball(CALLOSUM, 8.0, 60, seed=3)
    plain = dataclasses.replace(NEAR, corner_angle_deg=90.0, corner_weight=0.0)
    near, every = (track(field, seeds, AHEAD, s, device="cpu") for s in (NEAR, plain))
    assert plain == dataclasses.replace(
        EuDX(integrator="euler"),
        **{name: getattr(NEAR, name) for name in ("fa_stop", "step_mm", "precision", "min_length_mm", "max_length_mm")},
    )
    assert len(every.points) > len(near.points)


def test_several_directions_at_a_seed_are_one_streamline(tmp_path):
    field, seeds = brain(), ball(CALLOSUM, 3.0, 7)
    settings = dataclasses.replace(NEAR, precision="single")
    fan = track(field, seeds, None, settings, device="cpu")
    one = track(field, seeds, Principal(), settings, device="cpu")
    np.testing.assert_array_equal(fan.points, one.points)
    assert fan.parameters["launched"] == 7
    assert fan.parameters["directions"]["kind"] == "principal"
    assert track_to_file(str(tmp_path / "fan.tck"), field, seeds, Usual(), settings, device="cpu") == 7
    for asked in (Cone(), Cone(half_angle_deg=5.0), Isotropic()):
        with pytest.raises(InvalidInput, match=r"the method 'eudx' has no directions .*; choose 'principal'"):
            track(field, seeds, asked, settings, device="cpu")
