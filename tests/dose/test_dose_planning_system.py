"""A real plan (dicompyler's example, BSD-3) against the histograms that its planning system has stored."""

import functools
import json

import numpy as np
import pytest

from napari_gpubio.dose import Dose, contour_structure, dvh
from napari_gpubio.dose.io import read_dvh_sequence, read_rtdose, read_rtstruct
from tests.dose.samples import affine_of, at


@functools.cache
def counted(folder):
    structures = read_rtstruct(folder / "rtss.dcm")
    names = dict(zip(structures.numbers, (one.name for one in structures.structures), strict=True))
    stored = {one.name: one for one in read_dvh_sequence(folder / "rtdose.dcm", names)}
    return dvh(read_rtdose(folder / "rtdose.dcm"), structures.structures, device="cpu"), stored, structures


@pytest.fixture
def plan(shared_data):
    """Our histograms, the planning system's by name, and the structures."""
    return counted(shared_data / "dose" / "dicompyler_example")


@pytest.mark.parametrize("name", ["Breast", "Heart", "Lt Lung", "Tumor Bed"])
def test_mean_doses_are_within_1_percent(plan, name):
    result, stored, _ = plan
    assert result[name].mean == pytest.approx(stored[name].mean, rel=0.01)
    assert result[name].dose_at_percent(2) == pytest.approx(stored[name].dose_at_percent(2), rel=0.01)


@pytest.mark.parametrize(
    ("name", "percent"),
    [("Breast", 1.5), ("Heart", 2.5), ("Lt Lung", 3.0), ("Tumor Bed", 5.0), ("Tumor Bed Block", 3.0)],
)
def test_curves_are_close(plan, name, percent):
    result, stored, _ = plan
    doses = np.linspace(0.1, 14.6, 300)
    assert np.abs(result[name].percent_at(doses) - stored[name].percent_at(doses)).max() < percent


def test_an_empty_structure_is_empty(plan):
    result, _, structures = plan
    assert result["Areola"].is_empty
    assert "Areola" in [one.name for one in structures.structures]


def test_converged_slabs_of_another_program_are_met(plan, shared_data):
    """0.25 mm samples everywhere, another program; ours are spaced by accuracy."""
    result, _, structures = plan
    known = json.loads((shared_data / "dose" / "dicompyler_example_ref.json").read_text(encoding="utf-8"))
    for number, structure in zip(structures.numbers, structures.structures, strict=True):
        reference = known[str(number)].get("slab_ref_xor")
        if reference is None or structure.name == "BODY":  # part of it lies outside the dose
            continue
        found = result[structure.name]
        assert found.volume_cc == pytest.approx(reference["volume_cc"], rel=2e-3), structure.name
        assert found.mean == pytest.approx(reference["mean"], rel=2e-3), structure.name
        bin_gy = 14.681 / 4096
        for percent in (98, 95, 50, 5, 2):
            assert found.dose_at_percent(percent) == pytest.approx(reference[f"D{percent}"], rel=1e-2, abs=bin_gy), (
                structure.name
            )


def test_the_phantom_of_four_organs(shared_data):
    """262 contours in a dose of 4 mm; values of a converged calculation."""
    data = np.load(shared_data / "dose" / "seed_case.npz")
    affine = affine_of(data["spacing_xyz"], data["origin_xyz"])
    dose = Dose(values=data["dose"].transpose(2, 1, 0), affine=affine, unit="Gy")
    organs = [
        contour_structure(name, [at(loop, z) for loop, z in zip(data[f"{name}_xy"], data[f"{name}_z"], strict=True)])
        for name in ("skin", "lung_l", "lung_r", "target")
    ]
    result = dvh(dose, organs, device="cpu")
    volumes = {"skin": 16825.13, "lung_l": 1933.22, "lung_r": 1933.22, "target": 137.329}
    for name, volume in volumes.items():
        assert result[name].volume_cc == pytest.approx(volume, rel=3e-4)
    target = result["target"].dose_at_percent([98, 95, 50, 2])
    np.testing.assert_allclose(target, [83.68, 87.85, 97.68, 99.59], atol=0.04)
    assert result["target"].mean == pytest.approx(96.37, abs=0.01)
    assert result["lung_l"].mean == pytest.approx(20.09, abs=0.02)
    assert result["lung_l"].dose_at_percent(5) == pytest.approx(97.38, abs=0.05)
    assert result["skin"].mean == pytest.approx(3.058, abs=0.01)
    assert result["skin"].dose_at_percent(2) == pytest.approx(43.06, abs=0.3)
    assert result["lung_r"].dose_at_percent([99, 50, 1]) == pytest.approx([0.5] * 3)  # a dose of a single value
