"""What lies outside the dose grid, by three policies."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import Dose, DvhSettings, contour_structure, dvh
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import affine_of, at, square, uniform_dose

# The dose reaches from -1 to 39 mm along x (half a voxel beyond its centers); the structure from 29 to 49.
HALF_OUT = contour_structure("organ", [at(square(10.0, (39.0, 19.0)), z) for z in (15.0, 17.0, 19.0)])
KINDS = {"contours": HALF_OUT, "labels": whole_grid((10, 10, 3), affine_of(2.0, (30, 10, 15)), "organ")}


@pytest.mark.parametrize("kind", KINDS)
def test_outside_counts_as_no_dose(kind):
    found = dvh(uniform_dose(), KINDS[kind], device="cpu")["organ"]
    assert found.volume_cc == pytest.approx(2.4, rel=1e-3)
    assert found.outside_cc == pytest.approx(1.2, rel=1e-3)
    assert found.percent_at(2.0) == pytest.approx(50.0, abs=0.05)
    assert found.percent_at(0.0) == pytest.approx(100.0)
    assert found.mean == pytest.approx(1.0, abs=1e-3)
    assert (found.least, found.largest) == (0.0, 2.0)
    assert float(found.dose_at_percent(95)) == 0.0
    assert float(found.dose_at_percent(49)) == 2.0
    assert found.notes == (
        f"{found.outside_cc:.4g} cc of 'organ' lie outside the dose grid and are counted with no dose",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_outside_is_left_out(kind):
    found = dvh(uniform_dose(), KINDS[kind], DvhSettings(outside="exclude"), device="cpu")["organ"]
    assert found.volume_cc == pytest.approx(1.2, rel=1e-3)
    assert found.outside_cc == pytest.approx(1.2, rel=1e-3)
    assert found.percent_at(2.0) == 100.0
    assert found.mean == 2.0
    assert found.notes[0].endswith("are left out")


@pytest.mark.parametrize("kind", KINDS)
def test_outside_is_refused(kind):
    with pytest.raises(InvalidInput, match=r"1\.2 cc of 'organ' lie outside the dose grid; give a larger dose"):
        dvh(uniform_dose(), KINDS[kind], DvhSettings(outside="refuse"), device="cpu")


def test_a_structure_far_away():
    away = whole_grid((5, 5, 5), affine_of(2.0, (200, 0, 0)), "away")
    zero = dvh(uniform_dose(), away, device="cpu")["away"]
    assert (zero.volume_cc, zero.mean, zero.largest) == (pytest.approx(1.0), 0.0, 0.0)
    assert zero.percent_at(0.1) == 0.0
    assert dvh(uniform_dose(), away, DvhSettings(outside="exclude"), device="cpu")["away"].is_empty


def test_no_dose_lies_between_negative_and_positive_ones():
    values = np.where(np.arange(20)[:, None, None] < 16, -1.0, 1.0) * np.ones((20, 20, 20))
    dose = Dose(values=values, affine=affine_of(2.0), unit="Gy")
    found = dvh(
        dose, whole_grid((10, 10, 3), affine_of(2.0, (30, 10, 15)), "organ"), DvhSettings(spacing_mm=2.0), device="cpu"
    )
    organ = found["organ"]
    assert organ.percent_at(-1.0) == 100.0
    assert organ.percent_at(0.5) == pytest.approx(40.0, abs=0.1)
    assert organ.percent_at(-0.5) == pytest.approx(90.0, abs=0.1)
    assert organ.least == -1.0
