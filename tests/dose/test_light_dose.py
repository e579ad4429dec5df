"""Light dose over many decades, with voxels that no photon reached: curves agree with NumPy on the voxels."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import BySpacing, Dose, DvhSettings, LabelStructures, LiveDvh, dvh
from napari_gpubio.dose.io import write_metrics_csv
from napari_gpubio.dose.kernels.histogram import cpu, gpu
from napari_gpubio.dose.kernels.histogram.problem import make_problem
from napari_gpubio.dose.metrics import evaluate_constraints, evaluate_metric, parse_constraints, parse_metrics
from napari_gpubio.dose.run import whole_dose
from tests.dose.samples import ROTATION, affine_of, check_same, random_case

SHAPE = (24, 20, 22)
BIN = 1 / 128  # largest width of a bin, as a share of its doses
PERCENTS = (2, 5, 10, 50, 90, 95, 98)


def light(seed=0, decades=8.0, zeros=0.1, affine=None):
    """Fluence of any size over some decades, with some voxels at 0."""
    rng = np.random.default_rng(seed)
    values = 10.0 ** (-decades * rng.random(SHAPE)).astype(np.float32)
    values[0, 0, 0], values[-1, -1, -1] = 1.0, 10.0**-decades
    values[rng.random(SHAPE) < zeros] = 0.0
    affine = affine_of((1.0, 1.5, 2.0)) if affine is None else affine
    return Dose(values=values, affine=affine, unit="1/mm2", quantity="fluence", name="light")


def tissues(affine=None, seed=1):
    labels = np.random.default_rng(seed).integers(0, 4, SHAPE).astype(np.uint8)
    return LabelStructures(labels=labels, affine=affine_of((1.0, 1.5, 2.0)) if affine is None else affine)


def check_numpy(found, values, cc, slack=1e-6):
    """Mean, D_x%, V_x and the share of zeros are those of the voxels; ``slack`` is in voxels."""
    assert found.mean == pytest.approx(values.mean(dtype=np.float64), rel=1e-3)
    assert found.volume_cc == pytest.approx(values.size * cc)
    assert found.zero_cc == pytest.approx(np.count_nonzero(values == 0) * cc, abs=slack * cc)
    assert found.zero_percent == pytest.approx(100 * found.zero_cc / found.volume_cc)
    descending = np.sort(values)[::-1].astype(np.float64)
    for percent in PERCENTS:
        n = int(np.ceil(percent / 100 * values.size)) - 1
        low, high = descending[min(n + 1, values.size - 1)], descending[max(n - 1, 0)]
        assert low * (1 - BIN) <= found.dose_at_percent(percent) <= high * (1 + BIN)
    for dose in 10.0 ** np.arange(-7.5, 0):
        volume = found.volume_at(dose) / cc
        assert np.count_nonzero(values >= dose * (1 + BIN)) - slack <= volume
        assert volume <= np.count_nonzero(values >= dose * (1 - BIN)) + slack


@pytest.mark.parametrize(
    "affine", [None, affine_of((1.0, 1.5, 2.0), (3, -2, 7), ROTATION)], ids=["straight", "oblique"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_eight_decades_with_zeros_agree_with_numpy(affine, order):
    dose, organs = light(affine=affine), tissues(affine)
    dose = dataclasses.replace(dose, values=np.asarray(dose.values, order=order))
    for value, found in zip(organs.values, dvh(dose, organs, device="cpu"), strict=True):
        check_numpy(found, dose.values[organs.labels == value], organs.voxel_mm3 / 1000)


def test_the_dim_part_of_a_bright_dose_has_its_own_mean():
    dose = light(zeros=0.0)
    values = dose.values.copy()
    values[:12] *= np.float32(1e-8)
    values[0, 0, 0] = 1.0
    labels = np.ones(SHAPE, np.uint8)
    labels[1:12] = 2
    organs = LabelStructures(labels=labels, affine=dose.affine, structures={2: "dim"})
    (found,) = dvh(dataclasses.replace(dose, values=values), organs, device="cpu")
    dim = values[labels == 2]
    assert found.mean == pytest.approx(dim.mean(dtype=np.float64), rel=1e-3)
    assert found.dose_at_percent(50) == pytest.approx(np.median(dim), rel=0.02)
    assert found.least == pytest.approx(dim.min(), rel=1e-6)


def test_the_curve_has_a_step_at_zero_and_nothing_below_the_least_dose():
    dose, organs = light(zeros=0.3), tissues()
    found = dvh(dose, organs, device="cpu")["label 1"]
    assert found.least == 0.0
    assert found.dose_at_percent(100 - 0.5 * found.zero_percent) == 0.0
    for tiny in (1e-300, 1e-20, 0.9e-8):
        assert found.volume_at(tiny) == pytest.approx(found.volume_cc - found.zero_cc)
    assert found.least_positive >= 1e-8 * (1 - BIN)


def test_a_dose_in_the_volume_without_light_is_less_than_the_lowest_counted(tmp_path):
    dose, organs = light(zeros=0.3), tissues()
    found = dvh(dose, organs, device="cpu")["label 1"]
    lowest = dose.values[(organs.labels == 1) & (dose.values > 0)].min()
    metrics = parse_metrics("D95%[1/mm2], D95%[1/cm2], Min[1/mm2], D2%[1/mm2], Mean[1/mm2]")
    values = [evaluate_metric(metric, found) for metric in metrics]
    assert [one.value == 0 for one in values] == [one.is_limit for one in values] == [True, True, True, False, False]
    assert found.least_positive == values[0].below == values[2].below == pytest.approx(lowest, rel=BIN)
    assert values[1].below == pytest.approx(100 * values[0].below)
    assert str(values[0]) == f"<{values[0].below:.5g}"
    write_metrics_csv(tmp_path / "table.csv", [found], metrics)
    cells = (tmp_path / "table.csv").read_text().splitlines()[1].split(",")
    assert cells[1] == f"<{found.least_positive!r}"
    assert float(cells[4]) == values[3].value


def test_a_limit_on_a_dose_that_is_only_known_to_be_small_is_checked_as_far_as_that_goes():
    found = dvh(light(zeros=0.3), tissues(), device="cpu")["label 1"]
    lowest = found.least_positive
    constraints = parse_constraints(
        "".join(f"label 1: D95%[1/mm2] {sign} {factor * lowest}\n" for sign in ("<", ">") for factor in (2, 0.5))
    )
    results = evaluate_constraints(constraints, [found])
    assert [one.status for one in results] == ["pass", "not evaluated", "fail", "not evaluated"]
    assert results[0].text == f"<{lowest:.5g}"
    assert f"<{lowest:.5g}" in results[1].reason


def test_volume_outside_counts_as_no_dose_and_not_as_a_small_one():
    dose = light(zeros=0.0)
    labels = np.ones((60, 20, 22), np.uint8)
    (found,) = dvh(dose, LabelStructures(labels=labels, affine=dose.affine), device="cpu")
    outside = evaluate_metric(parse_metrics("D95%[1/mm2]")[0], found)
    assert (outside.value, outside.is_limit) == (0.0, False)


def test_volume_outside_is_not_volume_without_light():
    dose = light(zeros=0.2)
    labels = np.ones((30, 20, 22), np.uint8)
    organs = LabelStructures(labels=labels, affine=dose.affine)
    (found,) = dvh(dose, organs, device="cpu")
    zeros = np.count_nonzero(dose.values == 0)
    assert found.zero_cc == pytest.approx(zeros * 0.003)
    assert found.outside_cc == pytest.approx(6 * 20 * 22 * 0.003)
    assert found.volume_at(1e-20) == pytest.approx((dose.values.size - zeros) * 0.003)
    assert (np.diff(found.volumes_cc) <= 0).all()
    (inside,) = dvh(dose, organs, DvhSettings(outside="exclude"), device="cpu")
    check_numpy(inside, dose.values.reshape(-1), 0.003)


@pytest.mark.parametrize("decades", [1.0, 4.0, 12.0, 17.0])
def test_bins_reach_over_as_many_decades_as_the_dose(decades):
    dose = light(decades=decades, zeros=0.01)
    dose = dataclasses.replace(dose, values=dose.values.astype(np.float64))
    found = whole_dose(dose, device="cpu")
    positive = dose.values[dose.values > 0]
    for percent in PERCENTS:
        expected = np.quantile(dose.values, 1 - percent / 100, method="inverted_cdf")
        assert found.dose_at_percent(percent) == pytest.approx(expected, rel=0.05)
    assert found.least_positive == pytest.approx(positive.min(), rel=0.02)


def test_labels_on_a_finer_grid_see_the_value_of_each_voxel():
    dose = light()
    fine = np.repeat(np.repeat(np.repeat(tissues().labels, 2, 0), 2, 1), 2, 2)
    affine = dose.affine @ np.diag([0.5, 0.5, 0.5, 1.0])
    affine[:3, 3] = dose.affine[:3, :3] @ np.full(3, -0.25) + dose.affine[:3, 3]
    organs = LabelStructures(labels=fine, affine=affine)
    for value, found in zip(organs.values, dvh(dose, organs, device="cpu"), strict=True):
        check_numpy(found, dose.values[tissues().labels == value], 0.003, slack=0.1)  # samples on borders are rounded


def test_what_is_light_is_known_by_quantity_and_unit():
    dose = light()
    settings = DvhSettings()
    made = dvh(dose, tissues(), device="cpu").parameters["histograms"]
    assert (made["bin_scale"], made["within_voxels"]) == ("logarithmic", "constant")
    assert settings.resolved(dataclasses.replace(dose, quantity="", unit="J/cm²")).bin_scale == "logarithmic"
    for changes in ({"quantity": "dose", "unit": "Gy"}, {"quantity": "", "unit": "Gy"}):
        resolved = settings.resolved(dataclasses.replace(dose, **changes))
        assert (resolved.bin_scale, resolved.within_voxels) == ("linear", "interpolated")
    negative = dataclasses.replace(dose, values=dose.values - np.float32(0.1))
    assert settings.resolved(negative).bin_scale == "linear"
    with pytest.raises(InvalidInput, match="choose linear bins"):
        dvh(negative, tissues(), DvhSettings(bin_scale="logarithmic"), device="cpu")


@pytest.mark.parametrize("within_voxels", ["constant", "interpolated"])
def test_kernels_have_the_bits_of_their_backend(fake_gpu, within_voxels):
    fake_gpu()
    dose, structures = random_case(2)
    values = dose.values**8
    values[:4] = 0.0
    dose = dataclasses.replace(dose, values=values, unit="J/cm2")
    settings = DvhSettings(sampling=BySpacing(spacing_mm=1.3), bin_scale="logarithmic", within_voxels=within_voxels)
    check_same(*(dvh(dose, structures, settings, device=device) for device in ("cuda", "cpu")))
    problem = make_problem(dose, structures, settings)
    runs = cpu.Run(problem), gpu.Run(problem, device=Device("cuda", (0,)))
    for run in runs:
        run.advance(0, problem.items)
    expected, found = (run.snapshot() for run in runs)
    np.testing.assert_array_equal(found.rests, expected.rests)
    assert expected.rests.all()
    assert expected.counts[:, 0].any()


def test_painted_light_is_what_counting_anew_gives():
    dose, organs = light(), tissues()
    with LiveDvh(dose, organs, device="cpu") as live:
        new = np.full((5, 4, 3), 2, np.uint8)
        live.paint((3, 4, 5), new)
        labels = organs.labels.copy()
        labels[3:8, 4:8, 5:8] = 2
        check_same(live.dvhs(), dvh(dose, LabelStructures(labels=labels, affine=dose.affine), device="cpu"))


@pytest.mark.gpu
def test_a_gpu_has_the_bits_of_the_cpu():
    check_same(*(dvh(light(), tissues(), device=device) for device in ("cuda", "cpu")))
    contours = random_case(2)[1]
    dose = dataclasses.replace(random_case(2)[0], unit="J/cm2")
    check_same(*(dvh(dose, contours, device=device) for device in ("cuda", "cpu")))
