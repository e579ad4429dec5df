"""Every setting of tracking changes the fibers of its method."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio.diffusion import deconvolve, find_peaks, fit_tensors
from napari_gpubio.fibers import Adjugate, Cone, FromFod, Isotropic, Principal, Sharpened, track
from napari_gpubio.fibers.settings import METHODS, TensorGeodesic
from tests.diffusion.brain_samples import coarse_brain

OTHER = {
    "metric": Adjugate(), "step_mm": 0.35, "fa_stop": 0.4, "fod_stop": 0.3, "max_length_mm": 40.0,
    "min_length_mm": 150.0, "min_radius_mm": 8.0, "max_angle_deg": 6.0, "random_seed": 7, "trials": 3,
    "corner_angle_deg": 10.0, "corner_weight": 0.95, "anisotropy": 2.0, "power": 3, "angle_deg": 5.0, "weight": 0.9,
    "smoothing_voxels": 0.0, "cost": "shortest", "delta": 0.1, "stiffness_per_mm": 0.01, "epsilon": 0.05, "lmax": 2,
    "max_drift": 1e-6, "integrator": "euler", "interpolation": "linear", "eigenvalue_floor_mm2_per_s": 8e-4,
    "eigenvalue_ceiling_mm2_per_s": 6e-4, "max_steps": 20, "points_every": 5, "precision": "double",
}  # fmt: skip
OF_METHODS = {("fixel_geodesic", "power"): 1.0}  # 3 is its default
SEEDS = [(0.0, -5.0, 22.0), (17.0, -30.0, 18.0), (-22.0, -18.0, 12.0)]


@functools.cache
def fields():
    scan = coarse_brain()
    fods = deconvolve(scan, device="cpu")
    fixels = find_peaks(fods, device="cpu")
    return {"tensors": fit_tensors(scan, device="cpu"), "FODs": fods, "fixels": fixels}


def fibers_of(settings, directions=None):
    fan = directions or settings.directions(None, FromFod(count=12))
    fan = dataclasses.replace(fan, count=12) if hasattr(fan, "count") else fan
    return track(fields()[settings.works_in], SEEDS, fan, settings, device="cpu")


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_of_a_method_changes_its_fibers(method):
    plain = METHODS[method](max_steps=400)
    usual = fibers_of(plain)
    assert len(usual) > 1
    for field in dataclasses.fields(plain):
        if field.name == "texture":  # is one of a GPU
            continue
        value = OF_METHODS.get((method, field.name), OTHER[field.name])
        after = fibers_of(dataclasses.replace(plain, **{field.name: value}))
        assert not np.array_equal(usual.points, after.points), field.name


@pytest.mark.parametrize("method", [kind for kind, one in METHODS.items() if issubclass(one, TensorGeodesic)])
def test_the_power_of_the_sharpened_metric_changes_fibers(method):
    two, three = (fibers_of(METHODS[method](max_steps=400, metric=Sharpened(power=power))) for power in (2.0, 3.0))
    assert not np.array_equal(two.points, three.points)


@pytest.mark.parametrize("fan", [Cone, Isotropic, Principal, FromFod])
def test_every_setting_of_directions_changes_fibers(fan):
    others = {"count": 30, "half_angle_deg": 80.0, "both_ways": False}
    small = {"count": 40} if "count" in fan.__dataclass_fields__ else {}
    method = METHODS["lifted_geodesic"](max_steps=400)

    def points(directions):
        return track(fields()["FODs"], SEEDS, directions, method, device="cpu").points

    usual = points(fan(**small))
    for name in (field.name for field in dataclasses.fields(fan)):
        assert not np.array_equal(usual, points(fan(**small | {name: others[name]}))), name
