"""Which tests are run, and in what order.

Without ``--all`` a test function runs one case of its parametrization in seven, at least one, and long tests wait.
Which cases these are follows from a seed, today's number unless ``--seed`` gives one: each has its turn within a week.
"""

import datetime
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from tests.harness.times import known_seconds

DAYS = 7
_SECONDS, _SECONDS_WITH_WINDOW = 0.1, 1.0  # of a test, on average


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("napari-gpubio")
    group.addoption("--all", action="store_true", dest="every_case", help="every case, and the tests marked long, too")
    group.addoption("--seed", type=int, help="which cases are run without --all; today's number if left out")
    group.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in a random order")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed before workers are started, which get it; have xdist keep the order of files, which is ours."""
    if config.option.seed is None:
        config.option.seed = datetime.date.today().toordinal()
    config.option.loadscopereorder = False


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is run, and how to run it again."""
    if config.option.every_case:
        return "every case of every test"
    return f"one case in {DAYS} of each test, chosen by --seed {config.option.seed}; --all runs every case"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for --all, and put the rest in order."""
    if not config.option.every_case:
        named = {word.split("[")[0] for word in config.args if "::" in word}  # by the user: nothing of it is left out
        kept = set(chosen(items, config.option.seed)) | {item for item in items if function_of(item) in named}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    if config.option.shuffle is None:
        sort_longest_first(items, known_seconds(config))
    else:
        shuffle(items, config.option.shuffle)


def chosen(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """The cases of a seed, in their order; cases for a GPU and others are counted apart."""
    cases: defaultdict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") is None:
            cases[function_of(item), item.get_closest_marker("gpu") is not None].append(item)
    return [
        case
        for (function, _), ones in cases.items()
        for number, case in enumerate(ones)
        if case.get_closest_marker("every_case") or is_its_turn(function, number, len(ones), seed)
    ]


def is_its_turn(function: str, number: int, count: int, seed: int) -> bool:
    """Whether a seed runs this one of a function's cases; those of a file do not all begin with their first."""
    turns = min(count, DAYS)
    return (number + zlib.crc32(function.encode()) + seed) % turns == 0


def file_of(item: pytest.Item) -> str:
    """The file of a test, as pytest writes it."""
    return item.nodeid.split("::")[0]


def function_of(item: pytest.Item) -> str:
    """The name of a test without its case."""
    return item.nodeid.split("[")[0]


def sort_longest_first(items: list[pytest.Item], known: dict[str, float]) -> None:
    """Begin with the files that take longest, as known or as guessed: else one worker ends long after the others."""
    seconds: Counter[str] = Counter()
    for item in items:
        seconds[file_of(item)] += _SECONDS_WITH_WINDOW if item.get_closest_marker("display") else _SECONDS
    items.sort(key=lambda item: -known.get(file_of(item), seconds[file_of(item)]))


def shuffle(items: list[pytest.Item], seed: int) -> None:
    """Put files, and the tests of each, in a random order."""
    files: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[file_of(item)].append(item)
    chance, order = random.Random(seed), list(files)
    chance.shuffle(order)
    for file in order:
        chance.shuffle(files[file])
    items[:] = [item for file in order for item in files[file]]
