"""Phantoms, and the cases of the command line."""

import numpy as np
import pytest

from napari_gpubio.core.checks import run_check, run_speed
from napari_gpubio.core.device import CPU
from napari_gpubio.dose import DvhSettings, dvh
from napari_gpubio.dose.checks import CHECKS, SPEEDS
from napari_gpubio.dose.samples import light_dose, light_structures, treatment_dose, treatment_structures


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_checks_pass(check):
    rows = run_check(check, CPU)
    assert rows
    assert all(row["passed"] for row in rows), rows


@pytest.mark.parametrize("speed", SPEEDS, ids=lambda speed: speed.name)
def test_speeds_run(speed):
    assert run_speed(speed, CPU, repeats=1)["per_second"] > 0


def test_the_treatment():
    dose, structures = treatment_dose(), treatment_structures()
    assert sum(len(plane.loops) for structure in structures[:4] for plane in structure.planes) == 262
    assert dose.values.shape == (116, 60, 84)
    result = dvh(dose, structures, device="cpu")
    assert result["target"].volume_cc == pytest.approx(137.33, abs=0.02)
    assert result["body"].volume_cc == pytest.approx(np.pi * 170 * 105 * 300 / 1000, rel=1e-4)
    assert result["cord"].volume_cc == pytest.approx(np.pi * 49 * 300 / 1000, rel=2e-3)
    within = result["target"].percent_at(90.0)  # nearly one value
    assert within > 85
    assert result["target"].color == (220, 60, 60)


def test_light_in_two_organs():
    settings = DvhSettings(bin_scale="logarithmic")
    target, around = dvh(light_dose(), light_structures(), settings, device="cpu")
    assert target.volume_cc == pytest.approx(4 / 3 * np.pi * 8**3 / 1000, rel=2e-3)
    assert around.volume_cc == pytest.approx(4 / 3 * np.pi * (14**3 - 8**3) / 1000, rel=2e-3)
    assert around.largest == pytest.approx(10 * np.exp(-2.4) / 8, rel=0.12)
