"""Structures laid out once: a new dose gives what a calculation from the start gives."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import Dose, DvhSettings, ResidentDvh, dvh
from tests.dose.samples import random_case

SETTINGS = DvhSettings(spacing_mm=1.7)


def other_dose(dose, seed, kind=np.float64, *, turned=False, factor=1.0):
    values = (np.random.default_rng(seed).normal(size=dose.values.shape) * 30 * factor).astype(kind)
    return dataclasses.replace(dose, values=np.asfortranarray(values) if turned else values)


def check_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.doses, b.doses)
        np.testing.assert_array_equal(a.volumes_cc, b.volumes_cc)
        assert (a.mean, a.outside_cc) == (b.mean, b.outside_cc)


@pytest.mark.parametrize("device", ["cpu", "cuda:all"])
@pytest.mark.parametrize("bin_scale", ["linear", "logarithmic"])
def test_new_doses_give_what_a_new_calculation_gives(fake_gpu, device, bin_scale):
    fake_gpu(count=2)
    settings = dataclasses.replace(SETTINGS, bin_scale=bin_scale)
    dose, structures = random_case(1)
    with ResidentDvh(dose, structures, settings, device=device) as resident:
        check_same(resident.dvhs(), dvh(dose, structures, settings, device="cpu"))
        for seed, kind in enumerate((np.float32, np.float64, np.int16)):
            new = other_dose(dose, seed, kind, factor=10.0**seed)
            resident.set_dose(new)
            check_same(resident.dvhs(), dvh(new, structures, settings, device="cpu"))
        resident.set_dose(dose)
        check_same(resident.dvhs(), dvh(dose, structures, settings, device="cpu"))


def test_subnormal_doses_are_scaled_on_the_cpu(fake_gpu):
    """A GPU takes float32 numbers below 1e-38 for 0."""
    gpu = fake_gpu()
    dose, structures = random_case(1)
    tiny = dataclasses.replace(dose, values=(dose.values * 1e-40).astype(np.float32))
    found = dvh(tiny, structures, SETTINGS, device="cuda")
    assert "scale_dose" not in [name for _, name, _, _ in gpu.log]
    check_same(found, dvh(tiny, structures, SETTINGS, device="cpu"))
    assert found["ring"].largest > 1e-39


def test_layouts_in_memory_may_change():
    """Samples lie elsewhere in a voxel if a volume is seen from its other end, so the first layout is kept."""
    dose, structures = random_case(2)
    turned = other_dose(dose, 3, turned=True)
    straight = dataclasses.replace(turned, values=np.ascontiguousarray(turned.values))
    with ResidentDvh(dose, structures, SETTINGS, device="cpu") as resident:
        resident.set_dose(turned)
        check_same(resident.dvhs(), dvh(straight, structures, SETTINGS, device="cpu"))
    with ResidentDvh(turned, structures, SETTINGS, device="cpu") as resident:
        expected = resident.dvhs()
        resident.set_dose(straight)
        check_same(resident.dvhs(), expected)


def test_only_the_dose_is_uploaded_and_counted_anew(fake_gpu):
    gpu = fake_gpu()
    dose, structures = random_case(1)
    with ResidentDvh(dose, structures, SETTINGS, device="cuda") as resident:
        gpu.log.clear()
        resident.set_dose(other_dose(dose, 0, np.float32))
        resident.dvhs()
        names = [name for _, name, _, _ in gpu.log]
    assert names == ["scale_dose", "tally_rows", "tally_voxels", "tally_voxels", "tally_points"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "J/cm2"}, r"the new dose is in J/cm2 and the one before in Gy"),
        ({"affine": np.eye(4)}, "another grid than the one that structures were laid out for"),
        ({"values": np.zeros((3, 4, 5))}, r"the new dose has shape \(3, 4, 5\)"),
        ({"frame_of_reference": "1.9"}, r"another frame of reference \(1\.2 and 1\.9\)"),
    ],
)
def test_other_grids_and_units_are_refused(changes, message):
    dose, structures = random_case(1)
    dose = dataclasses.replace(dose, frame_of_reference="1.2")
    other: Dose = dataclasses.replace(dose, **changes)
    with ResidentDvh(dose, structures, SETTINGS, device="cpu") as resident:
        before = resident.dvhs()
        with pytest.raises(InvalidInput, match=message):
            resident.set_dose(other)
        check_same(resident.dvhs(), before)


def test_closing_frees_the_gpu(fake_gpu):
    gpu = fake_gpu()
    with ResidentDvh(*random_case(1), SETTINGS, device="cuda") as resident:
        assert gpu.used_bytes[0] > 0
    assert gpu.used_bytes[0] == 0, resident
