"""Axes, intervals and the logarithmic axis, without Qt's event loop."""

import numpy as np
import pytest

from napari_gpubio.dose import Dvh
from napari_gpubio.dose.gui.curves import DECADES, Axes, interval_edges, log_start, short_number, thin_points
from napari_gpubio.dose.gui.plot import DoseAxis


def a_dvh(doses, name="organ"):
    doses = np.asarray(doses, float)
    return Dvh(
        name=name, unit="Gy", doses=doses, volumes_cc=np.linspace(10.0, 0.0, len(doses)), mean=float(doses.mean())
    )


EMPTY = Dvh(name="none", unit="Gy", doses=np.empty(0), volumes_cc=np.empty(0), mean=float("nan"))


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("reference", [None, 40.0])
def test_a_dose_comes_back_from_its_place(logarithmic, reference):
    axes = Axes(unit="Gy", reference=reference, relative_dose=True, logarithmic=logarithmic)
    doses = np.array([0.02, 1.0, 37.5])
    np.testing.assert_allclose(axes.dose_at_position(axes.position_of_dose(doses)), doses)
    if reference and not logarithmic:
        assert axes.position_of_dose(20.0) == pytest.approx(50.0)


def test_a_logarithmic_curve_begins_at_the_least_positive_dose():
    dvhs = [a_dvh([0.0, 0.5, 20.0]), a_dvh([3.0, 9.0]), EMPTY]
    assert log_start(dvhs) == 0.5
    assert log_start([a_dvh([1e-20, 10.0])]) == pytest.approx(10.0 * 10**-DECADES)
    assert log_start([EMPTY]) == 1.0
    x, y = Axes(unit="Gy", logarithmic=True, relative_volume=False).points_of(dvhs[0], 0.5, np.empty(0))
    np.testing.assert_allclose(x, np.log10([0.5, 20.0]))
    np.testing.assert_allclose(y, [5.0, 0.0])


@pytest.mark.parametrize("logarithmic", [False, True])
def test_intervals_hold_every_dose(logarithmic):
    dvhs = [a_dvh([0.5, 20.0]), a_dvh([3.0, 90.0]), EMPTY]
    axes = Axes(unit="Gy", differential=True, logarithmic=logarithmic, relative_volume=False)
    edges = interval_edges(dvhs, axes)
    for dvh in dvhs:
        assert axes.points_of(dvh, 0.5, edges)[1].sum() == pytest.approx(dvh.volume_cc)
    assert ("equal ratio" if logarithmic else "intervals of 0.9 Gy") in axes.interval_text(edges)


def test_negative_doses_have_intervals_too():
    dvh = a_dvh([-4.0, 6.0])
    axes = Axes(unit="Gy", differential=True, relative_volume=False)
    edges = interval_edges([dvh], axes)
    assert edges[0] == -4.0
    assert axes.points_of(dvh, 0.0, edges)[1].sum() == pytest.approx(10.0)


def test_ticks_of_a_logarithmic_axis_say_what_they_stand_for(qtbot):
    axis = DoseAxis("bottom")
    axis.logarithmic = True
    axis.setRange(-3.2, 4.5)
    assert axis.tickStrings([-3.0, -1.0, 0.0, 3.0, 4.0], 1.0, 1.0) == ["10⁻³", "0.1", "1", "1000", "10⁴"]
    axis.setRange(-1.0, 1.0)
    assert axis.tickStrings(list(np.log10([0.2, 0.3, 5.0])), 1.0, 0.1) == ["0.2", "", "5"]


@pytest.mark.parametrize(
    ("value", "text"), [(12889.6, "12890"), (0.000123456, "0.0001235"), (1234.5, "1234"), (3e9, "3e+09")]
)
def test_numbers_are_short(value, text):
    assert short_number(value) == text


@pytest.mark.parametrize("points", [3, 250, 4097])
def test_a_thinned_curve_looks_like_all_of_it(points):
    """Beside every point that is left out there is a drawn line within 1/125 of width and height."""
    x = np.sort(np.random.default_rng(points).random(points)) ** 2 * 60
    y = 100 / (1 + np.exp((x - 30) / 2))
    y[x > 40] = 0.0  # an edge, which stays one
    few_x, few_y = thin_points(x, y, 250)
    assert (few_x[0], few_y[0], few_x[-1], few_y[-1]) == (x[0], y[0], x[-1], y[-1])
    assert len(few_x) <= min(points, 550)
    assert np.isin(few_x, x).all()
    np.testing.assert_allclose(np.interp(x, few_x, few_y), y, atol=100 / 125)


def test_an_edge_stays_an_edge():
    x = np.linspace(0, 60, 4001)
    y = np.where(x < 40, 100 - x, 0.0)
    few_x, few_y = thin_points(x, y, 250)
    before = np.flatnonzero(few_y > 0)[-1]
    assert (few_x[before], few_x[before + 1]) == (x[x < 40][-1], x[x >= 40][0])


def test_steps_of_intervals_are_all_drawn():
    edges, volumes = np.linspace(0, 1, 1001), np.ones(1000)
    assert thin_points(edges, volumes, 250) == (edges, volumes)
