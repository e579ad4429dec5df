"""A real GPU: the histograms of the CPU, bit for bit."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.dose import DvhSettings, LabelStructures, LiveDvh, ResidentDvh, dvh
from napari_gpubio.dose.samples import treatment_dose, treatment_structures
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import affine_of, check_same, random_case, uniform_dose

pytestmark = pytest.mark.gpu
GRID = whole_grid((40, 40, 40), affine_of(1.7, (-10, -10, -10)))
CASES = {
    "uniform": (uniform_dose(), [GRID]),
    "rough": random_case(1),
    "near-degenerate": (treatment_dose(), treatment_structures()),
}


@pytest.mark.parametrize("bins", [100, 4096, 8192])
@pytest.mark.parametrize("bin_scale", ["linear", "logarithmic"])
@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_the_cpus(name, bin_scale, bins):
    settings = DvhSettings(bins=bins, bin_scale=bin_scale)
    check_same(*(dvh(*CASES[name], settings, device=device) for device in ("cuda", "cpu")))


def test_shape_interpolation_has_the_bits_too():
    settings = DvhSettings(interpolation="shape")
    check_same(*(dvh(*CASES["near-degenerate"], settings, device=device) for device in ("cuda", "cpu")))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint16])
def test_new_doses_have_the_bits_too(kind):
    dose, structures = CASES["near-degenerate"]
    values = (np.random.default_rng(2).random(dose.values.shape) * 60).astype(kind)
    new = dataclasses.replace(dose, values=values)
    with ResidentDvh(dose, structures, device="cuda") as resident:
        resident.set_dose(new)
        check_same(resident.dvhs(), dvh(new, structures, device="cpu"))
        resident.set_dose(dose)
        check_same(resident.dvhs(), dvh(dose, structures, device="cpu"))


def test_painting_has_the_bits_too():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 30, (60, 70, 80)).astype(np.uint8)
    parts = LabelStructures(labels=labels, affine=affine_of(0.5))
    answers = []
    for device in ("cuda", "cpu"):
        with LiveDvh(uniform_dose(), parts, device=device) as live:
            live.paint((10, 20, 30), np.full((9, 8, 7), 5))
            answers.append(live.dvhs())
    check_same(*answers)
