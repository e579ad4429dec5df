"""The numbers of a result: against sums by hand, closed forms, and their own scatter."""

import csv
import dataclasses
import math
import re

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import number_text
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.statistics import detector_numbers, label_fluence, time_spread
from napari_gpubio.light.summary import detector_rows, energy_rows, fluence_rows, number_rows
from napari_gpubio.light.trust import findings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.estimates import PER_PHOTON, Estimate, FluenceUnit, fluence_units
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.numbers import NumberRow, write_csv
from napari_gpubio.optics.sources import Disk, Pencil
from tests.light.result_samples import detected_photons, sample_result
from tests.light.voxel_samples import make_domain

CSF = 3


@pytest.fixture(scope="module")
def result():
    return sample_result()


def changed_energy(result, **parts):
    return dataclasses.replace(result, energy=dataclasses.replace(result.energy, **parts))


def row_of(rows, group, name):
    (row,) = [row for row in rows if row.group.startswith(group) and row.name == name]
    return row


# ---------------------------------------------------------------------------------------------------------- units


def test_units_follow_the_source():
    assert fluence_units() == (PER_PHOTON,)
    names = [unit.name for unit in fluence_units(power_mw=5.0, energy_j=0.3)]
    assert names == ["1/mm²", "mW/mm²", "J/cm²"]
    for bad in ({"power_mw": 0.0}, {"energy_j": -1.0}, {"power_mw": math.nan}):
        with pytest.raises(InvalidInput, match="greater than 0"):
            fluence_units(**bad)
    with pytest.raises(InvalidInput, match="choose one of"):
        FluenceUnit("W/m²", 1.0)


def test_fluence_is_reported_as_the_result_itself_does(result):
    _, power, energy = fluence_units(power_mw=5.0, energy_j=0.3)
    white = result.domain.labels == 5
    for unit, volume in ((power, result.irradiance_mw_per_mm2(5.0)), (energy, result.fluence_j_per_cm2(0.3))):
        rows = fluence_rows(result, unit=unit, threshold=float(volume.max() / 10))
        assert row_of(rows, "Mean", "white matter").value == pytest.approx(volume[white].mean(dtype=float), rel=1e-5)
        assert row_of(rows, "Highest", "white matter").value == pytest.approx(volume[white].max(), rel=1e-5)
        assert row_of(rows, "Highest", "white matter").unit == unit.name


# --------------------------------------------------------------------------------------------- fluence of a label


def test_fluence_of_labels_against_sums_by_hand():
    random = np.random.default_rng(2)
    labels = random.choice(np.array([0, 1, 7, 300], np.uint16), (9, 10, 11))
    media = tuple(Medium(label=label, mua_per_mm=0.02, mus_per_mm=1.0) for label in (1, 7, 300))
    domain = Domain(labels=labels, affine=np.diag([0.5, 1.0, 2.0, 1.0]), media=media)
    fluence = random.exponential(1.0, labels.shape).astype(np.float32)
    error = random.random(labels.shape).astype(np.float32)
    parts = {"domain": domain, "gates": fluence[..., None], "fluence_error": error}
    result = dataclasses.replace(sample_result((2, 2, 2)), **parts, absorbed={})
    found = label_fluence(result, threshold=1.5)
    assert list(found) == [1, 7, 300]
    for label, numbers in found.items():
        mine = labels == label
        assert numbers.volume_mm3 == pytest.approx(mine.sum())
        assert numbers.mean.value == pytest.approx(fluence[mine].mean(dtype=float))
        assert math.isnan(numbers.mean.error)
        assert numbers.highest.value == fluence[mine].max()
        assert numbers.highest.error == error[mine][fluence[mine].argmax()]
        assert numbers.above_mm3 == pytest.approx((fluence[mine] >= 1.5).sum())


def test_the_mean_fluence_of_a_label_is_what_it_absorbs(result):
    for label, numbers in label_fluence(result).items():
        part, mua = result.absorbed[label], result.domain.medium(label).mua_per_mm
        assert numbers.mean.value == pytest.approx(part.value / (mua * numbers.volume_mm3), rel=1e-5)
        assert numbers.mean.error == pytest.approx(part.error / (mua * numbers.volume_mm3), rel=1e-5)


def test_where_absorption_varies_the_mean_has_no_error(result):
    domain = dataclasses.replace(result.domain, mua_per_mm=result.domain.absorption() * 1.0)
    assert math.isnan(label_fluence(dataclasses.replace(result, domain=domain))[1].mean.error)


def test_without_a_threshold_there_are_no_volumes(result):
    assert not [row for row in number_rows(result) if row.group.startswith("Volume")]
    rows = [row for row in number_rows(result, threshold=1e-3) if row.group == "Volume above 0.001 1/mm²"]
    assert [row.label for row in rows] == [1, 2, 3, 4, 5]
    for bad in (-1.0, math.nan):
        with pytest.raises(InvalidInput, match="must not be negative"):
            number_rows(result, threshold=bad)


# ---------------------------------------------------------------------------------------------------------- energy


def test_energy_rows_are_those_of_the_result(result):
    rows = energy_rows(result)
    energy = result.energy
    names = {"Specular": "specular", "Missed": "missed", "Escaped (diffuse)": "escaped", "Absorbed": "absorbed"}
    for name, field in (names | {"Truncated": "truncated", "Roulette": "roulette"}).items():
        row = row_of(rows, "Energy", name)
        assert (row.value, row.error) == getattr(energy, field)
    assert row_of(rows, "Energy", "Total").value == energy.total
    assert row_of(rows, "Absorbed", "CSF").label == CSF
    assert {row.status for row in rows} == {"ok"}
    assert row_of(rows, "Energy", "Roulette").note == "z = 0.6"


@pytest.mark.parametrize(("off", "status"), [(0.9e-6, "ok"), (-0.9e-6, "ok"), (1.1e-6, "error"), (math.nan, "error")])
def test_the_energy_balance_is_closed_within_a_millionth(result, off, status):
    escaped = Estimate(result.energy.escaped.value + off, 1e-4)
    broken = changed_energy(result, escaped=escaped)
    assert row_of(energy_rows(broken), "Energy", "Total").status == status
    assert findings(broken)[0].status == status


def moved_to_truncated(result, truncated):
    by = truncated - result.energy.truncated.value
    escaped = Estimate(result.energy.escaped.value - by, 1e-4)
    return changed_energy(result, truncated=Estimate(truncated, 1e-4), escaped=escaped)


def test_truncated_light_is_warned_of_above_one_per_cent(result):
    assert findings(moved_to_truncated(result, 0.0099))[0].status == "ok"
    found = findings(moved_to_truncated(result, 0.023))
    assert [finding.status for finding in found] == ["warning"]
    assert "2.3%" in found[0].sentence
    assert "5 ns" in found[0].sentence
    assert row_of(energy_rows(moved_to_truncated(result, 0.023)), "Energy", "Truncated").status == "warning"


@pytest.mark.parametrize(("value", "status"), [(3.9e-7, "ok"), (4.1e-7, "warning"), (-4.1e-7, "warning")])
def test_roulette_that_is_not_zero_within_its_error_is_warned_of(result, value, status):
    odd = changed_energy(result, roulette=Estimate(value, 1e-7))
    assert row_of(energy_rows(odd), "Energy", "Roulette").status == status
    assert findings(odd)[0].status == status


def test_a_source_that_the_surface_cuts_is_reported_with_the_way_out():
    """A disk in the plane between a block's tissue and the outside, tilted."""
    labels = np.zeros((20, 20, 20), np.uint8)
    labels[:, :, 10:] = 1
    domain = make_domain(labels, Medium(label=1, mua_per_mm=0.01, mus_per_mm=1.0, g=0.5, n=1.4))
    at_surface = {"position_mm": domain.grid_to_world((10.0, 10.0, 9.99)), "direction": (0.0, 0.6, 0.8)}
    beam = Disk(radius_mm=4.0, **at_surface)
    finding = findings(simulate(domain, beam, LightSettings(photons=2000), device="cpu"))[0]
    assert finding.status == "warning"
    assert re.search(r"(4[4-9]|5\d)% of the source lies behind the surface", finding.sentence)
    back = float(re.search(r"back by ([\d.]+) mm", finding.sentence)[1])
    moved = dataclasses.replace(beam, position_mm=np.array(beam.position_mm) - back * np.array(beam.direction))
    small = dataclasses.replace(beam, radius_mm=1.0)  # it dips into no more than one voxel
    for source in (moved, small, Pencil(**at_surface)):
        assert findings(simulate(domain, source, LightSettings(photons=2000), device="cpu"))[0].status == "ok"


def test_findings_come_worst_first_and_there_is_always_one(result):
    (good,) = findings(result)
    assert good.status == "ok"
    assert "closed" in good.sentence
    bad = findings(sample_result((4, 4, 4), truncated=0.02, lost=1e-3, complete=False))
    assert [finding.status for finding in bad] == ["error", "warning", "ok"]
    assert "333,333 of 1,000,000" in bad[2].sentence
    unsure = changed_energy(result, absorbed=Estimate(result.energy.absorbed.value, math.nan))
    assert "batches" in findings(unsure)[0].sentence
    full = dataclasses.replace(result, detected=dataclasses.replace(result.detected, dropped=7))
    assert "7 detected photons" in findings(full)[0].sentence
    assert {row.status for row in detector_rows(full) if row.name == "Photons"} == {"warning"}


# ------------------------------------------------------------------------------------------------------- detectors


def with_detected(result, detected, *positions):
    detectors = tuple(Detector(position_mm=(x, 0.0, 0.0)) for x in positions)
    return dataclasses.replace(result, detectors=detectors, detected=detected)


def test_detector_numbers_by_hand(result):
    photons = detected_photons(
        [1.0, 0.5, 0.25], [[10, 20], [30, 20], [4, 6]], time_ns=[0.1, 0.3, 9.0], detector=[0, 0, 1]
    )
    first, second, empty = detector_numbers(with_detected(result, photons, 3.0, 20.0, 30.0))
    assert (first.name, first.photons, first.separation_mm) == ("D1", 2, 3.0)
    assert first.weight.value == pytest.approx(1.5 / 1000)
    assert first.path_mm[1].value == pytest.approx((10 + 15) / 1.5)
    assert first.path_mm[2].value == pytest.approx(20.0)
    assert first.total_path_mm.value == pytest.approx((30 + 25) / 1.5)
    assert first.dpf.value == pytest.approx((30 + 25) / 1.5 / 3)
    assert first.time_ns.value == pytest.approx((0.1 + 0.15) / 1.5)
    assert second.path_mm[1].value == 4.0
    assert math.isnan(second.path_mm[1].error)  # of one photon no spread is known
    assert second.time_ns.value == 9.0
    assert empty.photons == empty.weight.value == 0
    assert math.isnan(empty.dpf.value)
    assert number_text(*empty.dpf) == "–"


def test_they_agree_with_the_detected_photons_own_means(result):
    for index, numbers in enumerate(detector_numbers(result)):
        photons = result.detected.of(index)
        assert numbers.weight.value == pytest.approx(photons.detected_weight, rel=1e-6)
        assert [part.value for part in numbers.path_mm.values()] == pytest.approx(
            list(photons.mean_path_mm()), rel=1e-6
        )
        assert numbers.time_ns.value == pytest.approx(photons.mean_time_ns(), rel=1e-6)
        separation = result.detectors[index].position_mm[0]
        assert numbers.dpf.value == pytest.approx(photons.differential_pathlength_factor(separation), rel=1e-6)


def test_the_error_of_a_weight_of_ones_is_the_binomial_one(result):
    (numbers,) = detector_numbers(with_detected(result, detected_photons(np.ones(50), np.ones((50, 2))), 3.0))
    assert numbers.weight.error == pytest.approx(math.sqrt(0.05 * 0.95 / 999), rel=1e-6)


def test_errors_are_the_scatter_of_repeated_runs(result):
    """400 runs by the same law: the spread of the means is the stated error, within its own 4 standard errors."""
    random, runs = np.random.default_rng(3), 400
    stated, found = [], []
    for _ in range(runs):
        count = random.binomial(2000, 0.1)
        path = random.gamma(4.0, 5.0, (count, 2))
        photons = detected_photons(
            np.exp(-0.03 * path.sum(axis=1)), path, time_ns=path.sum(axis=1) / 220, launched=2000
        )
        (numbers,) = detector_numbers(with_detected(result, photons, 10.0))
        parts = (numbers.weight, numbers.total_path_mm, numbers.path_mm[1], numbers.dpf, numbers.time_ns)
        found.append([part.value for part in parts])
        stated.append([part.error for part in parts])
    ratio = np.std(found, axis=0, ddof=1) / np.sqrt(np.mean(np.square(stated), axis=0))
    z = (ratio - 1) / (1 / math.sqrt(2 * (runs - 1)))  # of the spread of normal numbers; the stated error hardly varies
    assert np.abs(z).max() < 4, z


def test_the_time_spread_sums_to_the_detected_weight_and_has_its_shape():
    random = np.random.default_rng(4)
    times = 0.2 + random.exponential(0.5, 20_000)
    spread = time_spread(detected_photons(np.full(20_000, 0.5), np.ones((20_000, 2)), time_ns=times, launched=100_000))
    width = np.diff(spread.time_ns)
    assert np.allclose(width, width[0])
    assert (spread.weight * width[0]).sum() == pytest.approx(0.1)
    lower, upper = spread.time_ns - width[0] / 2 - 0.2, spread.time_ns + width[0] / 2 - 0.2
    expected = 0.1 * (np.exp(-lower / 0.5) - np.exp(-upper / 0.5)) / width[0]
    many = spread.error < 0.2 * spread.weight
    z = (spread.weight - expected)[many] / spread.error[many]
    assert many.sum() > 10
    assert np.abs(z).max() < 4
    assert (z**2).sum() < many.sum() + 4 * math.sqrt(2 * many.sum())


def test_the_time_spread_of_no_photon_and_of_one():
    assert len(time_spread(detected_photons([], np.empty((0, 2)))).time_ns) == 0
    one = time_spread(detected_photons([1.0], [[1, 1]], time_ns=[0.7]))
    assert one.time_ns == pytest.approx([0.7, 0.7], abs=2e-3)
    assert one.weight.sum() * np.diff(one.time_ns)[0] == pytest.approx(1e-3)


# ------------------------------------------------------------------------------------------------------------ CSV


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_holds_every_number_in_full(result, tmp_path):
    rows = number_rows(result, unit=fluence_units(power_mw=3.0)[1], threshold=0.1)
    write_csv(tmp_path / "numbers.csv", rows)
    back = read_csv(tmp_path / "numbers.csv")
    assert len(back) == len(rows)
    for line, row in zip(back, rows, strict=True):
        assert (line["group"], line["name"], line["unit"]) == (row.group, row.name, row.unit)
        assert line["label"] == ("" if row.label is None else str(row.label))
        for field, value in (("value", row.value), ("standard_error", row.error)):
            assert line[field] == "" if math.isnan(value) else float(line[field]) == value
    assert {line["group"] for line in back} >= {"Run", "Mean fluence rate", "Detector D1", "Volume above 0.1 mW/mm²"}


def test_commas_and_quotes_in_names_survive(tmp_path):
    row = NumberRow(group='a "b", c', name="skin; dry,\nold", value=1.0)
    write_csv(tmp_path / "x.csv", [row])
    assert read_csv(tmp_path / "x.csv")[0]["group"] == row.group
    assert read_csv(tmp_path / "x.csv")[0]["name"] == row.name


def test_a_table_that_fails_leaves_the_older_one(result, tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("older")

    def rows():
        yield NumberRow(group="a", name="b", value=1.0)
        raise InvalidInput("no more")

    with pytest.raises(InvalidInput, match="no more"):
        write_csv(path, rows())
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InvalidInput, match="does not exist"):
        write_csv(tmp_path / "no folder" / "x.csv", number_rows(result))


def test_what_only_more_photons_can_tell_is_no_fault_during_a_run():
    part = sample_result((4, 4, 4), complete=False)
    absorbed = Estimate(part.energy.absorbed.value, math.nan)
    part = dataclasses.replace(part, energy=dataclasses.replace(part.energy, absorbed=absorbed))
    sentences = [found.sentence for found in findings(part, running=True)]
    assert any(sentence.startswith("Running: ") for sentence in sentences)
    assert not any("batches" in sentence or "Stopped" in sentence for sentence in sentences)
    assert any("Stopped after" in found.sentence for found in findings(part))
    assert any("batches" in found.sentence for found in findings(part))
