"""How long tests take: a table of folders ends a run; another one, kept here, has the tests that take long.

``python3 start.py test --record-times`` brings that one up to date, as far as tests are run, on a machine that does
nothing else and has compiled everything.
"""

import csv
import functools
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

TABLE = "NAPARI_GPUBIO_TEST_TIMES"  # names a file that gets the table, too
PASSED = "NAPARI_GPUBIO_PASSED_TESTS"  # names a file of tests that passed; a later run with --all has the others
SLOW_TESTS = Path(__file__).with_name("slow_tests.csv")
SLOW_SECONDS = 0.1  # of a case, on average
_LINES = 10
_passed = pytest.StashKey[Path | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("napari-gpubio")
    group.addoption(
        "--record-times", action="store_true", help=f"write down which tests are slow, in {SLOW_TESTS.name}"
    )


@functools.cache
def slow_tests() -> dict[str, float]:
    """Seconds of a case of each test that takes long, by its name without the case."""
    with SLOW_TESTS.open(encoding="utf-8", newline="") as file:
        return {test: float(seconds) for test, seconds in csv.reader(file)}


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Add up times where reports arrive: in the one process, or in that which has workers."""
    passed_file(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(config), "times")


def passed_file(config: pytest.Config) -> Path | None:
    """The file of tests that passed, or None."""
    if _passed not in config.stash:
        path = os.environ.get(PASSED)
        config.stash[_passed] = Path(path) if path else None
    return config.stash[_passed]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Keep the file from what tests start: by now all workers have it."""
    os.environ.pop(PASSED, None)


def passed_before(config: pytest.Config) -> set[str]:
    """The tests that passed in earlier runs which noted them."""
    path = passed_file(config)
    return set(path.read_text(encoding="utf-8").splitlines()) if path is not None and path.exists() else set()


class Times:
    """Adds up the seconds of tests, and notes which pass."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: Counter[str] = Counter()  # of functions
        self._cases: Counter[str] = Counter()
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        function = report.nodeid.split("[")[0]
        self._seconds[function] += max(report.duration, 0.0)  # a test may have moved the clock
        self._cases[function] += report.when == "call"
        self._outcomes[report.nodeid].add("xfailed" if hasattr(report, "wasxfail") else report.outcome)

    def pytest_sessionfinish(self) -> None:
        """Write down which tests are slow, and which passed, if that is wanted."""
        if self._config.option.record_times:
            SLOW_TESTS.write_text(self.slow(slow_tests()), encoding="utf-8")
        if (path := passed_file(self._config)) is not None:
            path.write_text("\n".join(sorted(self.passed() | passed_before(self._config))), encoding="utf-8")

    def passed(self) -> set[str]:
        """The tests of which every phase passed."""
        return {test for test, outcomes in self._outcomes.items() if outcomes == {"passed"}}

    def slow(self, known: dict[str, float]) -> str:
        """The slow tests as a table, those that were not run as they are known."""
        means = {test: self._seconds[test] / cases for test, cases in self._cases.items() if cases}
        slow = {test: seconds for test, seconds in (known | means).items() if seconds >= SLOW_SECONDS}
        return "".join(f"{test},{slow[test]:.2f}\n" for test in sorted(slow))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the slowest folders."""
        lines = self.table()
        if len(lines) > 1:
            terminalreporter.write_sep("=", "slowest folders")
            terminalreporter.write_line("\n".join(lines))
        if path := os.environ.get(TABLE):
            Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def table(self) -> list[str]:
        """A line for each of the slowest folders: its tests, their seconds, its name."""
        seconds, tests = _by_folder(self._seconds), _by_folder(self._cases)
        return [f"{tests[folder]:6d} tests {s:7.1f} s  {folder}" for folder, s in seconds.most_common(_LINES)]


def _by_folder(counts: Counter[str]) -> Counter[str]:
    folders: Counter[str] = Counter()
    for test, count in counts.items():
        folders[test.split("::")[0].rpartition("/")[0] or "."] += count
    return folders
