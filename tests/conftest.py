"""What every test may ask for, and when a test may be skipped.

Environment variables: NAPARI_GPUBIO_REQUIRE_GPU=1 makes a missing GPU a failure; NAPARI_GPUBIO_FORBID_SKIPS=1 (CI)
makes every skip a failure, except for a missing GPU and for the data beside the repository; `pytest.xfail` in the
middle of a test counts as a skip.
"""

import contextlib
import functools
import gc
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

os.environ.setdefault("NAPARI_CONFIG", "")  # before napari is imported: no settings file of the user's
os.environ.setdefault("NAPARI_GPUBIO_NO_WARMUP", "1")  # panels start no process unless a test starts it
os.environ.setdefault("NAPARI_ENSURE_PLUGIN_MAIN_THREAD", "1")  # what a plugin sees of a viewer is used in it alone

from napari_gpubio.core import chunks, kernels
from napari_gpubio.core import device as devices
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.fake_cupy import FakeGpu

pytest_plugins = [f"tests.harness.{name}" for name in ("times", "selection", "deadlines", "windows")]
REQUIRE_GPU, FORBID_SKIPS = "NAPARI_GPUBIO_REQUIRE_GPU", "NAPARI_GPUBIO_FORBID_SKIPS"
NO_SHARED_DATA = "shared/data is absent"
NO_DISPLAY = (
    "no display: sudo apt-get install -y xvfb xauth libgl1 libegl1 libxkbcommon-x11-0 libxcb-cursor0, "
    'then xvfb-run -a -s "-screen 0 1600x1000x24" python -m pytest'
)
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
QT_FIXTURES, QT = {"qtbot", "qapp"}, ("qtpy", "PyQt", "PySide", "pyqtgraph", "superqt")
_no_gpu = pytest.StashKey[bool]()
_logged_from = logging.getLogger().level


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: thousands of tests stay, and each pass would look at all of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over all that was imported; napari collects whenever a layer is removed."""
    _forget_garbage()


def _forget_garbage() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def client():
    """Two Dask worker processes of one thread each."""
    distributed = pytest.importorskip("distributed", reason="no Dask: python -m pip install distributed")
    import dask

    quiet = {"distributed.logging": {"distributed": "critical"}, "distributed.comm.timeouts.connect": "10s"}
    quiet |= {"distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "10s"}
    one_thread = {"NUMBA_NUM_THREADS": "1"}  # of the workers; Numba here has begun its threads
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(quiet))
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, env=one_thread
        )
        yield stack.enter_context(distributed.Client(stack.enter_context(cluster)))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Each device in turn, as the word for ``device=``."""
    return str(request.param)


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip(NO_SHARED_DATA)
    return SHARED_DATA


@pytest.fixture
def cuda_on_cpu() -> Callable[..., loader.CpuModule]:
    """`tests.cuda_on_cpu.loader.load`, where there is a g++."""
    if (problem := loader.why_not()) is not None:
        pytest.skip(problem)
    return loader.load


@pytest.fixture
def fake_gpu(cuda_on_cpu: object) -> Iterator[Callable[..., FakeGpu]]:
    """A function that puts pretended GPUs into the machine: ``gpu = fake_gpu(count=2)``."""
    with contextlib.ExitStack() as stack:

        def install(count: int = 1, **facts: Any) -> FakeGpu:
            gpu = stack.enter_context(FakeGpu(count=count, **facts).installed())
            forget_gpu()
            return gpu

        yield install
    forget_gpu()


@functools.cache
def uses_qt(module: ModuleType, path: Path) -> bool:
    """Whether a file of tests is about dock widgets, or imports something of Qt's."""
    places = {str(getattr(one, "__module__", None) or getattr(one, "__name__", "")) for one in vars(module).values()}
    return "gui" in path.parts or any(place.startswith(QT) for place in places)


@pytest.fixture(autouse=True)
def application(request: pytest.FixtureRequest) -> None:
    """There is an application before anything of Qt's is used, which would end the process without one."""
    if uses_qt(request.module, request.path):
        request.getfixturevalue("qapp")


class _Clipboard:
    """Holds a text, as the clipboard of a screen does."""

    def __init__(self) -> None:
        self._text = ""

    def setText(self, text: str) -> None:  # noqa: N802 - the name that Qt has
        self._text = text

    def text(self) -> str:
        return self._text


@pytest.fixture(autouse=True)
def clipboard_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a clipboard of its own: that of the screen is shared with the tests of the other worker."""
    if (widgets := sys.modules.get("qtpy.QtWidgets")) is not None:
        clipboard = _Clipboard()
        monkeypatch.setattr(widgets.QApplication, "clipboard", staticmethod(lambda: clipboard))


@pytest.fixture(autouse=True)
def nothing_is_kept() -> None:
    """No test gets what an earlier one has made."""
    if (stores := sys.modules.get("napari_gpubio.core.operations.stores")) is not None:
        stores.STORE.clear()


@pytest.fixture(autouse=True)
def no_held_keys(request: pytest.FixtureRequest) -> None:
    """Shift and Ctrl of the last test's clicks are up: Qt holds them down until another event tells otherwise."""
    if "qtbot" in request.fixturenames:
        from qtpy.QtCore import Qt
        from qtpy.QtTest import QTest
        from qtpy.QtWidgets import QApplication, QWidget

        request.getfixturevalue("qtbot")
        if QApplication.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
            QTest.keyRelease(QWidget(), Qt.Key.Key_Shift)
            assert QApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier


@pytest.fixture(autouse=True)
def widgets_live_as_long_as_their_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """qtbot holds widgets weakly; one that goes while Qt still has events for it can end the process."""
    if "qtbot" in request.fixturenames:
        qtbot, held = request.getfixturevalue("qtbot"), []
        add = qtbot.addWidget
        monkeypatch.setattr(qtbot, "addWidget", lambda widget, **how: held.append(widget) or add(widget, **how))


@pytest.fixture(autouse=True)
def what_is_logged_stays() -> Iterator[None]:
    """Libraries raise the level for the whole process (pymmcore-plus does), and later tests would hear all others."""
    yield
    logging.getLogger().setLevel(_logged_from)


@pytest.fixture(autouse=True)
def all_previews(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in panels show every preview that they have: those of tests are too short to spare a share of their time."""
    if QT_FIXTURES & set(request.fixturenames):
        monkeypatch.setattr("napari_gpubio.gui.progress.PreviewPacer.is_due", lambda _: True)


@pytest.fixture
def in_chunks_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A function that cuts the work of every run into chunks of so many items: ``in_chunks_of(17)``."""
    return lambda count: monkeypatch.setattr(chunks._Worker, "_fits", lambda _: count)


@pytest.fixture
def viewer(request: pytest.FixtureRequest, napari_in_tests: None) -> Any:
    """An empty viewer of napari's; with a window for tests marked ``display``."""
    from napari.components import ViewerModel
    from npe2 import PluginManager

    if request.node.get_closest_marker("display"):
        return request.getfixturevalue("kept_window")
    PluginManager.instance().discover()  # as a window does: readers and writers are to be there
    return ViewerModel()


@pytest.fixture
def checked_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if anything that is drawn on a canvas is read from beyond its buffers, or from a deleted one."""
    from tests.draw_check import checked_draws

    with checked_draws() as checked:
        request.getfixturevalue("viewer")  # its buffers are to be made meanwhile
        yield
    assert checked.count > 0
    assert checked.problems == []


@pytest.fixture
def errors(qtbot: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[BaseException]]]:
    """A function that returns what has been raised in Qt's event loop or in a worker."""
    raised: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    with qtbot.capture_exceptions() as in_qt:
        yield lambda: raised + [error[1] for error in in_qt]


def forget_gpu() -> None:
    """Let the package look for GPUs and compile kernels anew."""
    devices.gpu_problem.cache_clear()
    devices._gpu_properties.cache_clear()
    kernels._module.cache_clear()


@pytest.fixture(autouse=True)
def _no_chosen_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's choice counts; and a GPU of this machine is taken only by tests that are marked for it."""
    monkeypatch.delenv(devices.ENVIRONMENT, raising=False)
    pretends = not {"fake_gpu", "no_cupy", "cuda_on_cpu"}.isdisjoint(request.fixturenames)
    if not pretends and request.node.get_closest_marker("gpu") is None and devices.gpu_problem() is None:
        monkeypatch.setenv(devices.ENVIRONMENT, "cpu")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, and let the garbage collector pass over all that is older than a window."""
    if item.get_closest_marker("gpu") and (problem := devices.gpu_problem()) is not None:
        if os.environ.get(REQUIRE_GPU) == "1":
            pytest.fail(f"{REQUIRE_GPU}=1, but {problem}", pytrace=False)
        item.stash[_no_gpu] = True
        pytest.skip(problem)
    if _needs_display(item) and not has_display():
        pytest.skip(NO_DISPLAY)
    if item.get_closest_marker("display"):
        _forget_garbage()


def _needs_display(item: Any) -> bool:
    if item.get_closest_marker("display"):
        return True
    without_screen = os.environ.get("QT_QPA_PLATFORM", "") in ("offscreen", "minimal")
    with_qt = not QT_FIXTURES.isdisjoint(item.fixturenames) or uses_qt(item.module, item.path)
    return with_qt and not without_screen


def has_display() -> bool:
    if not sys.platform.startswith("linux"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Make a skip a failure where skips are forbidden."""
    report: Any = yield
    left_early = call.excinfo is not None and isinstance(call.excinfo.value, pytest.xfail.Exception)
    failed_as_marked = hasattr(report, "wasxfail") and not left_early
    if report.skipped and not failed_as_marked and not item.stash.get(_no_gpu, False):
        _forbid(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Iterator[None]:
    """Do the same for a file that is skipped as a whole."""
    report: Any = yield
    if report.skipped:
        _forbid(report)
    return report


def _forbid(report: Any) -> None:
    found = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", report.longrepr)
    reason = str(found)
    allowed = re.fullmatch(rf"(Skipped: )?(\.\./)?{NO_SHARED_DATA}", reason)
    if os.environ.get(FORBID_SKIPS) == "1" and not allowed:
        report.outcome = "failed"
        report.longrepr = f"{FORBID_SKIPS}=1, but this was skipped: {reason.removeprefix('Skipped: ')}"
