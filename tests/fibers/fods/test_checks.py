"""The reference cases of ``napari-gpubio check fibers`` for FODs, on every device."""

import numpy as np
import pytest

from napari_gpubio.core.device import choose_device
from napari_gpubio.fibers import fod_checks as checks


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.name)
def test_the_reference_cases_pass(check, device):
    assert all(finding.passed for finding in check.run(choose_device(device)))


def test_a_wrong_radius_and_wrong_peaks_fail(monkeypatch):
    monkeypatch.setattr(checks, "ring_radius_mm", lambda *_: 1.02 * checks.RING_MM)
    monkeypatch.setattr(checks, "peak_errors_deg", lambda *_: np.full((5, 2), 6.0))
    findings = [finding for check in checks.CHECKS for finding in check.run(choose_device("cpu"))]
    assert not any(finding.passed for finding in findings)
