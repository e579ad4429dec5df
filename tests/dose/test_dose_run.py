"""A run: steps, stop, result."""

import json
import threading

import pytest

from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from napari_gpubio.dose import DvhSettings, dvh, dvh_steps
from tests.dose.samples import PLANES, circle, linear_dose, stack
from tests.runs import finished, stopped

DOSE = linear_dose((0.2, 0.3, 0.4))
ORGAN = stack([circle(15.0)], PLANES)
FINE = DvhSettings(spacing_mm=0.3)


def test_the_result_tells_how_it_was_made():
    result = dvh(DOSE, ORGAN, DvhSettings(outside="exclude"), device="cpu")
    told = json.loads(json.dumps(result.parameters))
    assert told["histograms"]["outside"] == "exclude"
    assert told["histograms"]["caps"] == "half"
    assert (told["unit"], told["device"][:3]) == ("Gy", "cpu")
    assert result.complete
    assert len(result) == 1
    assert result["organ"].spacing_mm > 0
    assert 0 < result["organ"].resolution_cc < 1e-6
    with pytest.raises(InvalidInput, match="there is no structure 'PTV'; there are organ"):
        result["PTV"]


def test_steps_run_to_their_end(in_chunks_of):
    in_chunks_of(1)
    steps, result = finished(dvh_steps(DOSE, ORGAN, FINE, device="cpu"))
    assert [step.done for step in steps] == list(range(1, steps[-1].total + 1))
    assert len(steps) > 5
    assert result.complete


def test_chunks_change_nothing(in_chunks_of):
    whole = dvh(DOSE, ORGAN, FINE, device="cpu")["organ"]
    in_chunks_of(2)
    parts = dvh(DOSE, ORGAN, FINE, device="cpu")["organ"]
    assert whole.doses.tolist() == parts.doses.tolist()
    assert whole.volumes_cc.tolist() == parts.volumes_cc.tolist()


def test_a_stopped_run_says_so(in_chunks_of):
    in_chunks_of(1)
    stop = threading.Event()
    result = stopped(dvh_steps(DOSE, ORGAN, FINE, device="cpu", stop=stop), stop, after=3)
    assert not result.complete
    whole = dvh(DOSE, ORGAN, FINE, device="cpu")["organ"]
    assert 0 < result["organ"].volume_cc < whole.volume_cc


def test_progress_is_told():
    seen = []
    dvh(DOSE, ORGAN, device="cpu", progress=seen.append)
    assert seen[-1].fraction == 1.0


def test_a_gpu_by_name_never_falls_back(monkeypatch):
    from napari_gpubio.core import device

    monkeypatch.setattr(device, "gpu_problem", lambda: "there is none")
    with pytest.raises(GpuUnavailable, match="there is none"):
        dvh(DOSE, ORGAN, device="cuda")
