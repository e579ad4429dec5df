"""Every setting of tracking changes the fibers of the methods that have it, and is refused by the others."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import applies, param_info
from napari_gpubio.tracts import Directions, TrackSettings, deconvolve, find_peaks, fit_tensors, track
from napari_gpubio.tracts.phantom import load_brain_phantom
from napari_gpubio.tracts.settings import FIXEL_METHODS, GEODESIC_METHODS, METHODS, TENSOR_METHODS

OTHER = {
    "metric": "adjugate", "sharpening": 3.0, "step_mm": 0.35, "fa_stop": 0.4, "fod_stop": 0.3, "max_length_mm": 40.0,
    "min_length_mm": 150.0, "min_radius_mm": 8.0, "max_angle_deg": 6.0, "random_seed": 7, "trials": 3,
    "corner_angle_deg": 10.0, "corner_weight": 0.95, "fixel_anisotropy": 2.0, "fixel_power": 1.0,
    "fixel_angle_deg": 5.0, "fixel_weight": 0.9, "fixel_smoothing_voxels": 0.0, "lifted_cost": "shortest",
    "lifted_delta": 0.1, "lifted_power": 3, "lifted_stiffness_per_mm": 0.01, "lifted_epsilon": 0.05, "lifted_lmax": 2,
    "max_drift": 1e-6, "integrator": "euler", "interpolation": "linear", "eigenvalue_floor_mm2_per_s": 8e-4,
    "eigenvalue_ceiling_mm2_per_s": 6e-4, "max_steps": 20, "points_every": 5, "precision": "double",
}  # fmt: skip
SEEDS = [(0.0, -5.0, 22.0), (17.0, -30.0, 18.0), (-22.0, -18.0, 12.0)]


@functools.cache
def fields():
    scan = load_brain_phantom()
    fods = deconvolve(scan, device="cpu")
    return fit_tensors(scan, device="cpu"), fods, find_peaks(fods, device="cpu")


def fibers_of(settings):
    tensors, fods, fixels = fields()
    method = settings.method
    field = tensors if method in TENSOR_METHODS else fixels if method in FIXEL_METHODS else fods
    kind = "cone" if method in TENSOR_METHODS else "fod"
    return track(field, SEEDS, None if method == "eudx" else Directions(kind=kind, count=12), settings, device="cpu")


def test_every_setting_is_tried():
    names = {field.name for field in dataclasses.fields(TrackSettings) if param_info(field) is not None}
    assert names - set(OTHER) == {"method", "texture"}  # the texture is one of a GPU


@pytest.mark.parametrize("method", METHODS)
def test_what_has_no_effect_is_refused(method):
    plain = TrackSettings(method=method, max_steps=400)
    usual = fibers_of(plain)
    assert len(usual) > 1
    for name, value in OTHER.items():
        is_sharpened = name == "sharpening" and method in GEODESIC_METHODS
        settings = dataclasses.replace(plain, metric="sharpened") if is_sharpened else plain
        if applies(settings, name):
            before = usual if settings is plain else fibers_of(settings)
            after = fibers_of(dataclasses.replace(settings, **{name: value}))
            assert not np.array_equal(before.points, after.points), name
        else:
            with pytest.raises(InvalidInput, match=f"{name} is .*, which has no effect with m.* '{method}'|metric"):
                dataclasses.replace(settings, **{name: value})
