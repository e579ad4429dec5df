"""Runs: steps, stop, result; structures that leave the dose; what importing the engine loads."""

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from napari_gpubio.core import device as devices
from napari_gpubio.core import jit, warmup
from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from napari_gpubio.dose import BySpacing, Dose, DvhSettings, contour_structure, dvh, dvh_steps
from napari_gpubio.dose.io import read_rtdose
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import (
    PLANES,
    affine_of,
    at,
    check_same,
    circle,
    linear_dose,
    random_case,
    square,
    stack,
    uniform_dose,
)
from tests.runs import finished, stopped

DOSE = linear_dose((0.2, 0.3, 0.4))
ORGAN = stack([circle(15.0)], PLANES)
FINE = DvhSettings(sampling=BySpacing(spacing_mm=0.3))
# The dose reaches from -1 to 39 mm along x (half a voxel beyond its centers); the structure from 29 to 49.
HALF_OUT = contour_structure("organ", [at(square(10.0, (39.0, 19.0)), z) for z in (15.0, 17.0, 19.0)])
KINDS = {"contours": HALF_OUT, "labels": whole_grid((10, 10, 3), affine_of(2.0, (30, 10, 15)), "organ")}


def test_a_result_has_its_provenance():
    result = dvh(DOSE, ORGAN, DvhSettings(outside="exclude"), device="cpu")
    stored = json.loads(json.dumps(result.parameters))
    assert stored["histograms"]["outside"] == "exclude"
    assert stored["histograms"]["caps"] == "half"
    assert (stored["unit"], stored["device"][:3]) == ("Gy", "cpu")
    assert result.complete
    assert len(result) == 1
    assert result["organ"].spacing_mm > 0
    assert 0 < result["organ"].resolution_cc < 1e-6
    with pytest.raises(InvalidInput, match="there is no structure 'PTV'; there are organ"):
        result["PTV"]


def test_steps_run_to_their_end_and_chunks_change_nothing(in_chunks_of):
    whole, seen = dvh(DOSE, ORGAN, FINE, device="cpu"), []
    in_chunks_of(1)
    steps, result = finished(dvh_steps(DOSE, ORGAN, FINE, device="cpu"))
    assert [step.done for step in steps] == list(range(1, steps[-1].total + 1))
    assert len(steps) > 5
    assert result.complete
    check_same(result, whole)
    in_chunks_of(2)
    check_same(dvh(DOSE, ORGAN, FINE, device="cpu", progress=seen.append), whole)
    assert seen[-1].fraction == 1.0


def test_a_stopped_run_is_incomplete(in_chunks_of):
    in_chunks_of(1)
    stop = threading.Event()
    result = stopped(dvh_steps(DOSE, ORGAN, FINE, device="cpu", stop=stop), stop, after=3)
    assert not result.complete
    whole = dvh(DOSE, ORGAN, FINE, device="cpu")["organ"]
    assert 0 < result["organ"].volume_cc < whole.volume_cc


def test_a_gpu_by_name_never_falls_back(monkeypatch):
    monkeypatch.setattr(devices, "gpu_problem", lambda: "there is none")
    with pytest.raises(GpuUnavailable, match="there is none"):
        dvh(DOSE, ORGAN, device="cuda")


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_outside_the_dose(kind):
    """It counts as no dose, is left out, or is refused."""
    found = dvh(uniform_dose(), KINDS[kind], device="cpu")["organ"]
    assert found.volume_cc == pytest.approx(2.4, rel=1e-3)
    assert found.outside_cc == pytest.approx(1.2, rel=1e-3)
    assert found.percent_at(2.0) == pytest.approx(50.0, abs=0.05)
    assert found.percent_at(0.0) == pytest.approx(100.0)
    assert found.mean == pytest.approx(1.0, abs=1e-3)
    assert (found.least, found.largest) == (0.0, 2.0)
    assert found.dose_at_percent([95, 49]).tolist() == [0.0, 2.0]
    note = f"{found.outside_cc:.4g} cc of 'organ' lie outside the dose grid and are counted with no dose"
    assert found.notes == (note,)
    found = dvh(uniform_dose(), KINDS[kind], DvhSettings(outside="exclude"), device="cpu")["organ"]
    assert [found.volume_cc, found.outside_cc] == pytest.approx([1.2, 1.2], rel=1e-3)
    assert (found.percent_at(2.0), found.mean) == (100.0, 2.0)
    assert found.notes[0].endswith("are left out")
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
    organ = dvh(dose, KINDS["labels"], DvhSettings(sampling=BySpacing(spacing_mm=2.0)), device="cpu")["organ"]
    assert organ.percent_at(-1.0) == 100.0
    assert organ.percent_at(0.5) == pytest.approx(40.0, abs=0.1)
    assert organ.percent_at(-0.5) == pytest.approx(90.0, abs=0.1)
    assert organ.least == -1.0


def test_pydicom_and_napari_are_loaded_when_they_are_needed():
    heavy = ("pydicom", "numba", "scipy", "nibabel", "napari", "qtpy", "cupy", "pyqtgraph")
    code = f"import sys, napari_gpubio.dose\nprint(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == ""


def test_without_pydicom_the_message_names_it(monkeypatch, tmp_path):
    (tmp_path / "dose.dcm").write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(InvalidInput, match="DICOM files need pydicom: python -m pip install pydicom"):
        read_rtdose(tmp_path / "dose.dcm")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_nothing(monkeypatch, threads):
    dose, structures = random_case(2)
    fine = DvhSettings(sampling=BySpacing(spacing_mm=0.4))
    expected = dvh(dose, structures, fine, device="cpu")
    monkeypatch.setattr(jit, "thread_count", lambda: threads)
    check_same(dvh(dose, structures, fine, device="cpu"), expected)


@pytest.mark.parametrize("one", warmup.warmups("dose"), ids=lambda one: one.name)
def test_every_warm_up_runs(one):
    """How many functions they compile is counted in a process of its own, for all engines."""
    one.run()


@pytest.mark.parametrize("structures", ["PTV", [np.zeros((2, 3))], 3])
def test_what_is_no_structure_is_refused(structures):
    with pytest.raises(InvalidInput, match="is no structure; give contours, labels or points"):
        dvh(uniform_dose(), structures, device="cpu")
