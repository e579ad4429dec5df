"""The run behind the panel's button "Sensitivity": what is refused, and its random numbers."""

import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.light.gui import sensitivity
from napari_gpubio.light.gui.displayed import DisplayOptions
from napari_gpubio.light.gui.sensitivity import sensitivity_steps


@pytest.fixture
def begun(monkeypatch):
    """The settings of the runs that are begun; none of them traces a photon."""
    settings = []

    def simulate_steps(_domain, _source, own, **_):
        settings.append(own)
        yield Step(0, own.photons, "")

    monkeypatch.setattr(sensitivity, "simulate_steps", simulate_steps)
    return settings


def first_step(result):
    """Begin the run for the sensitivity to the first detector."""
    steps = sensitivity_steps(result, result.detectors[0], "D1", "cpu", threading.Event(), DisplayOptions())
    next(steps)
    steps.close()


def test_scattering_that_is_not_reciprocal_is_refused_before_the_run(result, begun):
    tensors = np.zeros((*result.domain.shape, 6), np.float32)
    tensors[..., :3] = 8.0, 9.0, 10.0
    free = dataclasses.replace(result, domain=result.domain.with_tensors(tensors, "free"))
    with pytest.raises(InvalidInput, match="reciproc"):
        first_step(free)
    assert not begun
    first_step(dataclasses.replace(result, domain=result.domain.with_tensors(tensors, "product")))
    assert len(begun) == 1


def test_the_largest_seed_is_followed_by_the_smallest(result, begun):
    for seed in (7, 2**64 - 1):
        first_step(dataclasses.replace(result, settings=dataclasses.replace(result.settings, seed=seed)))
    assert [settings.seed for settings in begun] == [8, 0]
