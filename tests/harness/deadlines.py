"""Nothing is waited for without end: a deadline for each test, each file and the whole run, and a crash ends the run.

When a deadline passes, Python prints what every thread is doing and ends the process. If that process is a worker of
xdist's, or a worker dies in another way, the run ends at once and names the test.
"""

import contextlib
import faulthandler
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

_CRASHED = "???"  # what xdist gives as the phase of a test that its worker did not survive
TEST_SECONDS, FILE_SECONDS, RUN_SECONDS = 240.0, 1800.0, 7200.0  # on a machine that does much else, too


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    help_ = "how many times longer than usual tests may take: more than 1 on a machine that is slow or busy"
    parser.getgroup("napari-gpubio").addoption("--patience", type=float, default=1.0, help=help_)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Follow the tests of this process, and workers if it has some."""
    config.pluginmanager.register(Deadlines(config), "deadlines")
    if config.getoption("numprocesses", None):
        config.option.maxworkerrestart = 0
        config.pluginmanager.register(Workers(), "workers")


class Deadlines:
    """Ends this process if a test, its file, or the run takes too long.

    Parameters
    ----------
    config
        Tells how patient to be. pytest captures no output yet, so that this is where stderr is taken from.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._test, self._file, self._run = (
            config.option.patience * seconds for seconds in (TEST_SECONDS, FILE_SECONDS, RUN_SECONDS)
        )
        self._stderr = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        self._run_ends = self._file_ends = self._test_ends = time.monotonic() + self._run
        self._path: object = None
        self._arm(self._run)

    def _arm(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(max(seconds, 1.0), exit=True, file=self._stderr)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Give a test its time, or what is left of its file's or the run's."""
        now = time.monotonic()
        if item.path != self._path:
            self._path, self._file_ends = item.path, now + self._file
        self._test_ends = min(now + self._test, self._file_ends, self._run_ends)
        self._arm(self._test_ends - now)
        result = yield
        self._arm(self._run_ends - time.monotonic())
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Begin again: pytest's own plugin for faults has ended every deadline, for a debugger."""
        self._arm(self._test_ends - time.monotonic())

    def pytest_unconfigure(self) -> None:
        """Wait for nothing any more."""
        faulthandler.cancel_dump_traceback_later()


class Workers:
    """Ends the run when a worker of xdist's dies, and ends the workers with the run."""

    def __init__(self) -> None:
        self._problem = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Note a death, whether or not a test was running."""
        if error:
            self._problem = f"worker {node.gateway.id} has died"

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End the run after a worker's death; its test, if it was in one, is reported first."""
        if self._problem:
            where = f" in {report.nodeid}; its stack is above" if report.when == _CRASHED else ""
            pytest.exit(f"{self._problem}{where}", returncode=pytest.ExitCode.TESTS_FAILED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End workers that are in the middle of something, and theirs; a run in which one has died has failed."""
        if self._problem and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._problem or exitstatus == pytest.ExitCode.INTERRUPTED:
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
