"""Who may import whom, and what a headless user must not have to load."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("napari", "qtpy", "PyQt6", "PySide6", "vispy", "magicgui", "superqt", "pyqtgraph", "cupy")
HEAVY += ("numba", "scipy", "nibabel", "pydicom", "PIL", "h5py", "pandas")  # imported where they are used
ENGINES = ("tracts", "light", "denoise", "dose", "speckle")


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def loaded_after(statement: str) -> str:
    return run_python(f"{statement}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])")


def test_the_package_loads_no_engine():
    assert run_python("import napari_gpubio, sys; print('napari_gpubio.tracts' in sys.modules)") == "False"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_headless_and_quick_to_import(engine):
    assert loaded_after(f"import napari_gpubio, napari_gpubio.{engine}") == ""


def test_engines_are_attributes_of_the_package():
    names = run_python("import napari_gpubio as g; print(*g.ENGINES, g.tracts.__name__, g.__version__)").split()
    assert tuple(names[:-2]) == ENGINES
    assert names[-2] == "napari_gpubio.tracts"


def test_an_unknown_attribute_is_an_attribute_error():
    import napari_gpubio

    with pytest.raises(AttributeError, match="no attribute 'gone'"):
        napari_gpubio.gone  # noqa: B018 - the access is the test


def test_the_contracts_between_rooms_hold():
    if importlib.util.find_spec("importlinter") is None:
        pytest.skip("import-linter is not installed: python -m pip install import-linter")
    run_python("from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))")
