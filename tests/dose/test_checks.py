"""Checks, speed cases, also of the panel, and sample doses and structures with their layers."""

import numpy as np
import pytest
from napari.layers import Layer

from napari_gpubio.core.checks import run_check, run_speed
from napari_gpubio.core.device import CPU
from napari_gpubio.core.napari_io import carried
from napari_gpubio.dose import ByAccuracy, DvhSettings, dvh
from napari_gpubio.dose.checks import CHECKS, SPEEDS
from napari_gpubio.dose.closed_forms import ball_around_source
from napari_gpubio.dose.gui import checks as cases
from napari_gpubio.dose.napari_io import contours_of, dose_of, labels_of, unit_of
from napari_gpubio.dose.samples import (
    INNER_MM,
    MU_EFF_PER_MM,
    OUTER_MM,
    STRENGTH,
    light_dose,
    light_layers,
    light_structures,
    treatment_dose,
    treatment_layers,
    treatment_structures,
)
from tests.dock_widgets import visible_windows


@pytest.mark.daily
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
    assert result["body"].volume_cc == pytest.approx(np.pi * 170 * 105 * 300 / 1000, rel=1e-4)
    assert result["cord"].volume_cc == pytest.approx(np.pi * 49 * 300 / 1000, rel=2e-3)
    target = result["target"]
    assert target.percent_at(90.0) > 85  # nearly one value
    assert (target.volume_cc, target.color) == (pytest.approx(137.33, abs=0.02), (220, 60, 60))


def test_light_in_two_organs():
    settings = DvhSettings(within_voxels="interpolated")
    target, around = dvh(light_dose(), light_structures(), settings, device="cpu")
    assert target.volume_cc == pytest.approx(4 / 3 * np.pi * 8**3 / 1000, rel=2e-3)
    assert around.volume_cc == pytest.approx(4 / 3 * np.pi * (14**3 - 8**3) / 1000, rel=2e-3)
    assert around.largest == pytest.approx(10 * np.exp(-2.4) / 8, rel=0.12)


def made(layers):
    return {data[1]["name"]: Layer.create(*data) for data in layers}


def test_the_treatment_is_that_of_its_contours():
    layers = made(treatment_layers())
    dose = dose_of(layers["dose"], unit_of(layers["dose"]))
    assert dose.unit == "Gy"
    assert carried(layers["dose"], "prescription") == 90.0
    organs = labels_of(layers["organs"])
    assert organs.names == ("body (rest)", "left lung", "right lung", "target", "cord")
    (drawn,) = contours_of(layers["target contours"], dose)
    labeled = dvh(dose, organs, device="cpu")["target"]
    (contoured,) = dvh(dose, drawn, device="cpu")
    # reference: 137.329 cc, mean 96.37, D95 87.85, D2 99.59 Gy, by a slab calculation of 0.5 to 1 mm
    assert contoured.volume_cc == pytest.approx(137.329, rel=2e-3)
    assert contoured.mean == pytest.approx(96.37, abs=0.05)
    assert contoured.dose_at_percent(95) == pytest.approx(87.85, abs=0.1)
    assert contoured.dose_at_percent(2) == pytest.approx(99.59, abs=0.05)
    assert labeled.volume_cc == pytest.approx(contoured.volume_cc, rel=0.01)  # 2 mm voxels
    assert labeled.mean == pytest.approx(contoured.mean, abs=0.2)
    color = layers["organs"].get_color(4)[:3]
    np.testing.assert_allclose(color, np.array(drawn.color) / 255, atol=0.01)


def test_the_light_dose_is_that_of_lamberts_function():
    layers = made(light_layers())
    dose = dose_of(layers["light dose"], unit_of(layers["light dose"]))
    assert (dose.unit, carried(layers["light dose"], "energy_j")) == ("J/cm²", 1.0)
    result = dvh(
        dose, labels_of(layers["organs"]), DvhSettings(sampling=ByAccuracy(accuracy_percent=0.02)), device="cpu"
    )
    for fluence in (0.05, 0.2, 0.5, 1.0, 3.0):
        inner = float(ball_around_source(fluence, INNER_MM, STRENGTH, MU_EFF_PER_MM)) / 1000
        outer = float(ball_around_source(fluence, OUTER_MM, STRENGTH, MU_EFF_PER_MM)) / 1000
        whole = 4 / 3 * np.pi * INNER_MM**3 / 1000
        assert result["target"].volume_at(fluence) == pytest.approx(inner, abs=0.01 * whole)
        assert result["around it"].volume_at(fluence) == pytest.approx(outer - inner, abs=0.02 * whole)


@pytest.mark.display
@pytest.mark.usefixtures("napari_in_tests")
def test_every_stroke_is_timed(qtbot):
    before = visible_windows()
    took = cases.stroke_ms(CPU, strokes=5, side=64)
    assert len(took) == 5
    assert min(took) > 0
    qtbot.waitUntil(lambda: visible_windows() <= before)


def test_all_organs_lie_in_the_dose():
    dose, organs = cases.boxes(cases.SIDE)
    assert dose.values.shape == organs.labels.shape == (256, 256, 256)
    assert np.bincount(organs.labels.ravel())[1:].tolist() == [organs.voxels[1]] * 30
    assert organs.voxels[1] > 150_000


def test_the_findings_are_of_the_strokes(monkeypatch):
    monkeypatch.setattr(cases, "stroke_ms", lambda _: (10.0, 90.0))
    assert [finding.result for finding in cases.CHECKS[0].run(CPU)] == [50.0, 86.0]
    assert [finding.passed for finding in cases.CHECKS[0].run(CPU)] == [True, False]
