"""Every setting of the verbs of scans, FODs and connectomes changes some result of a small case."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio import diffusion
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.operations import Store, digest, run
from napari_gpubio.diffusion import operations as diffusion_operations
from napari_gpubio.diffusion.fods.settings import (
    CsdSettings,
    HighestFa,
    MultiTissueSettings,
    PeakSettings,
    ThreeTissues,
    Tournier,
)
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.tractograms import operations as tractograms_operations
from napari_gpubio.tractograms.connectome import AllVoxels, Backwards, ConnectomeSettings, EndVoxels, Radial
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.fods.test_response import THREE_SHELLS, tissue_scan

FIBERS = sample_path("brain_phantom/bundles.trk")
ATLAS = sample_path("brain_phantom/atlas.nii.gz")
STORE = Store()
UNSEEN = {  # settings, and why no small case shows them
    (ThreeTissues, "white_fa"): "the voxels of this scan have the FA of one fiber, or next to none",
    (CsdSettings, "iterations"): "voxels settle long before 50; `test_fod_cli` counts those that do not",
    (MultiTissueSettings, "constraint_directions"): "300 directions hold a smooth FOD as well as others do",
}


@functools.cache
def scan():
    """The brain phantom with noise, whose darkest signals give tensors that are to be repaired."""
    brain = coarse_brain(3)
    rng = np.random.default_rng(0)
    noisy = np.hypot(*(brain.data * (n == 0) + rng.normal(0, 40, brain.data.shape) for n in (0, 1)))
    return diffusion_operations.HeldScan.of(dataclasses.replace(brain, data=noisy.astype(np.float32)), store=STORE)


@functools.cache
def shells():
    """Tissues, in three shells."""
    made, *_ = tissue_scan(THREE_SHELLS)
    assert isinstance(made, DiffusionScan)
    return diffusion_operations.HeldScan.of(made, store=STORE)


def responses():
    made = diffusion_operations.EstimateTissueResponses(
        scan=shells(), tissues=ThreeTissues(shrink=1, white_percent=5.0)
    )
    return tuple(made.output(name) for name in ("wm", "gm", "csf"))


def fods():
    return diffusion_operations.Deconvolve(scan=scan(), settings=CsdSettings(lmax=4))


def connectome(**parts):
    fibers, atlas = tractograms_operations.OpenFibers.at(FIBERS), diffusion_operations.OpenAtlas.at(ATLAS)
    return tractograms_operations.MakeConnectome(fibers=fibers, atlas=atlas, **parts)


def fit(settings):
    return diffusion_operations.FitTensors(scan=scan(), settings=settings)


def matrix(settings):
    return connectome(matrix=settings)


def assigned(settings):
    return connectome(settings=ConnectomeSettings(assignment=settings))


CASES = {
    "fit": (fit, diffusion.FitSettings(), {
        "estimator": diffusion.OrdinaryLeastSquares(), "repair": diffusion.Repaired(floor_mm2_per_s=5e-4),
    }),
    "fit of shells": (lambda one: diffusion_operations.FitTensors(scan=shells(), settings=one), diffusion.FitSettings(),
                      {"shells": THREE_SHELLS[:2]}),
    "csd of a shell": (lambda one: diffusion_operations.Deconvolve(scan=shells(), settings=one), CsdSettings(lmax=4),
                       {"shell": THREE_SHELLS[1]}),
    "wls": (lambda one: fit(diffusion.FitSettings(estimator=one)), diffusion.WeightedLeastSquares(), {"iterations": 0}),
    "fa": (lambda one: diffusion_operations.EstimateResponse(scan=scan(), method=one), HighestFa(voxels=60),
           {"voxels": 90, "lmax": 4}),
    "tournier": (lambda one: diffusion_operations.EstimateResponse(scan=scan(), method=one),
                 Tournier(voxels=60, lmax=6),
                 {"voxels": 90, "lmax": 4, "iterations": 1}),
    "three tissues": (lambda one: diffusion_operations.EstimateTissueResponses(scan=shells(), tissues=one),
                      ThreeTissues(shrink=1, white_percent=5.0),
                      {"white_percent": 9.0, "gray_percent": 9.0, "csf_percent": 30.0, "shrink": 2,
                       "lmax": 4}),
    "csd": (lambda one: diffusion_operations.Deconvolve(scan=scan(), settings=one), CsdSettings(lmax=4),
            {"lmax": 6, "constraint_directions": 60, "neg_lambda": 5.0, "norm_lambda": 5.0,
             "precision": "single"}),
    "tissues": (lambda one: diffusion_operations.DeconvolveTissues(scan=shells(), responses=responses(), settings=one),
                MultiTissueSettings(lmax=4), {"lmax": 6}),
    "peaks": (lambda one: diffusion_operations.FindPeaks(fods=fods(), settings=one), PeakSettings(),
              {"most": 1, "least_fraction": 0.5, "least_amplitude": 0.3, "least_angle_deg": 80.0}),
    "radial": (assigned, Radial(), {"radius_mm": 1.0}),
    "backwards": (assigned, Backwards(), {"backwards_mm": 1.0}),
    "matrix": (matrix, tractograms_operations.MatrixSettings(),
               {"of": "length_mm", "statistic": "mean", "per_node_volume": True, "per_length": True}),
}  # fmt: skip


def digests(operation):
    """What an operation makes, as far as it can be made."""
    made = run(operation, device="cpu", store=STORE)
    return {name: digest(operation.output(name).value_in(made)) for name in operation.makes if name != "s0"}


def test_every_setting_is_tried_or_it_is_said_why_not():
    for cls in {type(plain) for _, plain, _ in CASES.values()}:
        tried = {name for _, plain, others in CASES.values() if type(plain) is cls for name in others}
        unseen = {name for owner, name in UNSEEN if owner is cls}
        assert {field.name for field in dataclasses.fields(cls)} == tried | unseen, cls


@pytest.mark.parametrize("case", CASES)
def test_every_setting_changes_some_result(case):
    make, plain, others = CASES[case]
    usual = digests(make(plain))
    for name, value in others.items():
        assert digests(make(dataclasses.replace(plain, **{name: value}))) != usual, name


def test_alternatives_without_settings_differ():
    found = [digests(assigned(one)) for one in (Radial(), EndVoxels(), Backwards(), AllVoxels())]
    assert len({str(one) for one in found}) == 4
