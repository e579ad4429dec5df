"""What a user of the engine need not load."""

import subprocess
import sys


def test_pydicom_and_napari_are_loaded_when_they_are_needed():
    heavy = ("pydicom", "numba", "scipy", "nibabel", "napari", "qtpy", "cupy", "pyqtgraph")
    code = f"import sys, napari_gpubio.dose\nprint(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == ""


def test_without_pydicom_the_sentence_says_what_to_install(monkeypatch, tmp_path):
    import pytest

    from napari_gpubio.core.errors import InvalidInput
    from napari_gpubio.dose.io import read_rtdose

    (tmp_path / "dose.dcm").write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(InvalidInput, match="DICOM files need pydicom: python -m pip install pydicom"):
        read_rtdose(tmp_path / "dose.dcm")
