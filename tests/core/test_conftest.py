"""The rules for skipping: what may be skipped, and what turns a skip into a failure."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SWITCHES = ("NAPARI_GPUBIO_REQUIRE_GPU", "NAPARI_GPUBIO_FORBID_SKIPS", "DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


@pytest.fixture
def run_pytest(tmp_path):
    """A function that runs test text under the project's conftest and returns pytest's output."""

    def run(text: str, **environment: str) -> str:
        (tmp_path / "test_it.py").write_text("import sys, pytest\nsys.modules['cupy'] = None\n" + text)
        command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "pytestqt.plugin"]
        command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "--all"]
        clean = {key: value for key, value in os.environ.items() if key not in SWITCHES}
        clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # quicker
        done = subprocess.run(
            [*command, "--disable-warnings", str(tmp_path)],
            cwd=ROOT,
            env=clean | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stdout

    return run


def counts(out: str) -> dict[str, int]:
    """Read pytest's closing line."""
    words = re.findall(r"(\d+) (passed|failed|skipped|error|xfailed)", out.splitlines()[-1])
    return {word: int(number) for number, word in words}


ON_BOTH = "def test_both(device): assert device in ('cpu', 'cuda')\n"


def test_a_missing_gpu_is_a_skip_with_the_reason(run_pytest):
    out = run_pytest(ON_BOTH, NAPARI_GPUBIO_FORBID_SKIPS="1")
    assert counts(out) == {"passed": 1, "skipped": 1}
    assert "CuPy is not installed; for an NVIDIA GPU: pip install" in out


def test_a_missing_gpu_is_a_failure_where_one_is_required(run_pytest):
    out = run_pytest(ON_BOTH, NAPARI_GPUBIO_REQUIRE_GPU="1")
    assert counts(out) == {"passed": 1, "error": 1}
    assert "NAPARI_GPUBIO_REQUIRE_GPU=1, but CuPy is not installed" in out


SKIPPING = """
def test_data():
    pytest.skip("../shared/data is absent")
def test_in_the_test():
    pytest.skip("no reason")
@pytest.mark.skipif(True, reason="by mark")
def test_by_mark():
    pass
@pytest.fixture
def absent():
    pytest.importorskip("absent_module")
def test_in_a_fixture(absent):
    pass
@pytest.mark.display
def test_display():
    pass
@pytest.mark.xfail
def test_expected():
    raise ValueError
def test_left_early():
    pytest.xfail("no second processor")
"""


def test_skips_are_allowed_at_home(run_pytest):
    out = run_pytest(SKIPPING)
    assert counts(out) == {"skipped": 5, "xfailed": 2}
    assert "no display: sudo apt-get install -y xvfb" in out


def test_skips_are_forbidden_on_demand(run_pytest):
    out = run_pytest(SKIPPING, NAPARI_GPUBIO_FORBID_SKIPS="1")
    assert counts(out) == {"failed": 2, "skipped": 1, "xfailed": 1, "error": 3}
    assert "NAPARI_GPUBIO_FORBID_SKIPS=1, but this was skipped: no second processor" in out
    assert "NAPARI_GPUBIO_FORBID_SKIPS=1, but this was skipped: by mark" in out


@pytest.mark.parametrize(("forbid", "closing"), [("0", {"skipped": 1}), ("1", {"error": 1})])
def test_a_file_that_is_skipped_as_a_whole(run_pytest, forbid, closing):
    out = run_pytest("pytest.importorskip('absent_module')\n", NAPARI_GPUBIO_FORBID_SKIPS=forbid)
    assert counts(out) == closing


def test_a_test_with_qt_is_skipped_without_a_display(run_pytest):
    assert counts(run_pytest("def test_window(qtbot): pass\n")) == {"skipped": 1}


def test_shared_data_lies_beside_the_repository(shared_data):
    assert shared_data == ROOT.parent / "shared" / "data"
    assert (shared_data / "README.md").is_file()
