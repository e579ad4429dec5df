"""Metrics of rays: the dual of each, and what a new one takes."""

import subprocess
import sys

import numpy as np
import pytest

from napari_gpubio.tracts.settings import METRICS, adjugate, inverse, sharpened

NAN, INF = float("nan"), float("inf")


EIGENVALUES = np.array([[[1.7, 0.5, 0.2]], [[1.0, 1.0, 1.0]], [[3.0, 2.9, 0.1]]])


def test_there_are_these_metrics():
    assert list(METRICS) == ["inverse", "sharpened", "adjugate"]
    assert METRICS["adjugate"] is adjugate


def test_the_dual_of_the_inverse_is_the_tensor():
    np.testing.assert_array_equal(inverse(EIGENVALUES, 3.0), EIGENVALUES)


@pytest.mark.parametrize("power", [1.0, 2.0, 2.5])
def test_the_dual_of_a_sharpened_metric_is_a_power_of_the_tensor(power):
    np.testing.assert_allclose(sharpened(EIGENVALUES, power), EIGENVALUES**power, rtol=1e-14)
    np.testing.assert_allclose(sharpened(EIGENVALUES, power)[0, 0], [1.7**power, 0.5**power, 0.2**power])


def test_the_adjugate_metric_is_the_matrix_of_cofactors():
    dual = adjugate(EIGENVALUES, 2.0)
    for values, w in zip(EIGENVALUES[:, 0], dual[:, 0], strict=True):
        cofactors = np.linalg.det(np.diag(values)) * np.linalg.inv(np.diag(values))  # adj D = det(D) D^-1
        np.testing.assert_allclose(np.diag(1 / w), cofactors, atol=1e-14)


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_metrics_keep_the_order_of_axes_and_the_type(metric):
    for real in (np.float32, np.float64):
        dual = metric(EIGENVALUES.astype(real), 2.0)
        assert dual.dtype == real
        assert (np.diff(dual, axis=-1) <= 0).all()
        assert (dual > 0).all()


NEW_METRIC = """
import importlib.util, sys
import napari_gpubio, numpy as np
from pathlib import Path

path = Path(napari_gpubio.__file__).parent / "tracts" / "settings.py"
module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("napari_gpubio.tracts.settings", path))
sys.modules[module.__name__] = module
added = '''

@_metric
def cubed(eigenvalues, power):
    return eigenvalues * eigenvalues * eigenvalues

'''
exec(path.read_text().replace("\\nclass StopReason", added + "\\nclass StopReason", 1), module.__dict__)

from napari_gpubio import tracts
from napari_gpubio.tracts.phantom.closed_forms import ring

field = ring(origin=(-31.5, -31.5, -3.5), shape=(64, 64, 8)).sample()
common = dict(max_length_mm=20.0, precision="double")
seed, ahead = [(20.0, 0.0, 0.0)], tracts.Directions(kind="principal")
new = tracts.track(field, seed, ahead, tracts.TrackSettings(metric="cubed", **common), device="cpu")
known = tracts.TrackSettings(metric="sharpened", sharpening=3.0, **common)
old = tracts.track(field, seed, ahead, known, device="cpu")
assert len(new.points) > 50
np.testing.assert_allclose(new.points, old.points, atol=1e-5)
plain = tracts.track(field, seed, ahead, tracts.TrackSettings(**common), device="cpu")
assert np.abs(new[0][-1] - plain[0][-1]).max() > 0.1
"""


def test_a_new_metric_is_one_more_function_in_the_file():
    done = subprocess.run([sys.executable, "-c", NEW_METRIC], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
