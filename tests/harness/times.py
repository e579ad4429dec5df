"""How long tests take: a table of folders ends a run; pytest's cache has files, so that the longest come first."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TABLE = "NAPARI_GPUBIO_TEST_TIMES"  # names a file that gets the table, too
SECONDS = "napari-gpubio/seconds"  # of each file, in pytest's cache
_LINES = 10


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Add up times where reports arrive: in the one process, or in that which has workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(config), "times")


class Times:
    """Adds up the seconds of tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: Counter[str] = Counter()  # of files
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        file = report.nodeid.split("::")[0]
        self._seconds[file] += max(report.duration, 0.0)  # a test may have moved the clock
        self._tests[file] += report.when == "call"

    def pytest_sessionfinish(self) -> None:
        """Keep the times of the files that were run, for the next run."""
        cache = getattr(self._config, "cache", None)  # it can be switched off
        if cache is not None:
            cache.set(SECONDS, cache.get(SECONDS, {}) | {file: round(s, 2) for file, s in self._seconds.items()})

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
        seconds, tests = _by_folder(self._seconds), _by_folder(self._tests)
        return [f"{tests[folder]:6d} tests {s:7.1f} s  {folder}" for folder, s in seconds.most_common(_LINES)]


def _by_folder(counts: Counter[str]) -> Counter[str]:
    folders: Counter[str] = Counter()
    for file, count in counts.items():
        folders[file.rpartition("/")[0] or "."] += count
    return folders


def known_seconds(config: pytest.Config) -> dict[str, float]:
    """How long files took when they were last run here."""
    cache = getattr(config, "cache", None)
    return {} if cache is None else cache.get(SECONDS, {})
