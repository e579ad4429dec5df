"""Fields and settings for the tests of both backends of ray tracing."""

import dataclasses
import functools

import pytest

from napari_gpubio.tracts import Directions, TrackSettings, fit_tensors, track
from napari_gpubio.tracts.kernels.rays.problem import RayProblem
from napari_gpubio.tracts.model import Cache
from napari_gpubio.tracts.phantom import load_brain_phantom
from napari_gpubio.tracts.phantom.closed_forms import pull_back
from napari_gpubio.tracts.seeds import ball, make_launch

KINDS = {
    "cubic": {"interpolation": "smoothing"},
    "linear": {"interpolation": "linear"},
    "vanaart2011": {"method": "vanaart2011"},
    "eudx": {"method": "eudx"},
}
CALLOSUM = (0.0, -5.0, 22.0)
BOTH_KINDS = pytest.mark.parametrize("kind", KINDS)
BOTH_REALS = pytest.mark.parametrize("precision", ["single", "double"])
SEEDS = ball(CALLOSUM, 4.0, 12, seed=5)
FAN = Directions(count=15)
TRACK = TrackSettings(max_length_mm=40.0)


@functools.cache
def brain():
    """The tensors of a box around the phantom's callosum, its mask not everywhere."""
    whole = fit_tensors(load_brain_phantom(), device="cpu")
    box = (slice(10, 42), slice(20, 52), slice(14, 44))
    affine = whole.affine.copy()
    affine[:3, 3] += affine[:3, :3] @ [s.start for s in box]
    return dataclasses.replace(whole, tensors=whole.tensors[box], mask=whole.mask[box], affine=affine, cache=Cache())


@functools.cache
def waves():
    """T10, smaller."""
    return dataclasses.replace(pull_back(), shape=(32, 32, 32), origin=(-16.0, -16.0, -16.0)).sample()


FIELDS = {"brain": (brain, ball(CALLOSUM, 4.0, 5, seed=2)), "waves": (waves, ball((0.5, 0.2, -0.3), 9.0, 5))}


def fresh(field):
    """The same tensors with nothing prepared from them."""
    return dataclasses.replace(field, cache=Cache())


def problem(field, seeds, settings, directions=None, **more):
    return RayProblem(field, make_launch(field, seeds, directions or Directions(count=8)), settings, **more)


def settings_of(kind, precision="single", **changes):
    base = TrackSettings(precision=precision, max_length_mm=60.0, step_mm=0.4, fa_stop=0.0)
    return dataclasses.replace(base, **{**KINDS[kind], **changes})


@functools.cache
def tracked_on_the_cpu():
    return track(brain(), SEEDS, FAN, TRACK, device="cpu")
