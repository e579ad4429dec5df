"""Which tests are run, and in what order.

Without ``--all`` a test function runs one case of its parametrization in twelve, at least one, and those marked
``long`` wait. Slow ones (``slow_tests.csv``) take turns, one in 24 of a file, except for those marked ``daily``:
a kernel's bits, an engine's checks, one way through each panel, scripts copied from it. All this follows from a seed,
today's number unless ``--seed`` gives one. What the user names, a file or a test, is run whole.

CI runs both, one after the other: with NAPARI_GPUBIO_PASSED_TESTS=FILE, a run notes what passed there, and ``--all``
leaves out what is noted.
"""

import datetime
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

from tests.harness.times import passed_before, slow_tests

DAYS = 12  # between the turns of a case
SLOW_DAYS = 24  # between those of a slow test
_SECONDS = 0.03  # of a test that is not slow


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
        passed = passed_before(config)
        return "every case of every test" + (f", but for the {len(passed):,} that passed before" if passed else "")
    return (
        f"one case in {DAYS} of each test, and one slow test in {SLOW_DAYS} beside those marked daily, "
        f"chosen by --seed {config.option.seed}; --all runs everything"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for --all, and put the rest in order."""
    if config.option.every_case:
        passed = passed_before(config)
        leave_out(config, items, {item for item in items if item.nodeid not in passed})
    else:
        kept = set(chosen(items, config.option.seed, slow_tests())) | {
            item for item in items if is_named(item, config.args)
        }
        leave_out(config, items, kept)
    if config.option.shuffle is None:
        sort_longest_first(items, slow_tests())
    else:
        shuffle(items, config.option.shuffle)


def leave_out(config: pytest.Config, items: list[pytest.Item], kept: Collection[pytest.Item]) -> None:
    """Leave out all tests but some."""
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def is_named(item: pytest.Item, words: Iterable[str]) -> bool:
    """Whether the user names the file of a test, or the test."""
    for file, _, test in (word.partition("::") for word in words):
        if file.endswith(".py") and item.path == Path(file).resolve():
            return not test or function_of(item).endswith(f"::{test.split('[')[0]}")
    return False


def chosen(items: Iterable[pytest.Item], seed: int, slow: Collection[str] = ()) -> list[pytest.Item]:
    """The cases of a seed, in their order; cases for a GPU and others are counted apart."""
    cases: defaultdict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") is None:
            cases[function_of(item), item.get_closest_marker("gpu") is not None].append(item)
    waiting: Counter[str] = Counter()  # slow tests of each file
    kept = []
    for (function, _), ones in cases.items():
        day = seed
        if function in slow and ones[0].get_closest_marker("daily") is None:
            file = file_of(ones[0])
            waiting[file] += 1
            if not is_its_turn(file, waiting[file], SLOW_DAYS, seed):
                continue
            day //= SLOW_DAYS  # the next case at the next turn
        turns = min(len(ones), DAYS)
        kept += [
            case
            for number, case in enumerate(ones)
            if case.get_closest_marker("every_case") or is_its_turn(function, number, turns, day)
        ]
    return kept


def is_its_turn(name: str, number: int, turns: int, seed: int) -> bool:
    """Whether a seed takes this one of those that take turns; the name spreads their beginnings."""
    return (number + zlib.crc32(name.encode()) + seed) % turns == 0


def file_of(item: pytest.Item) -> str:
    """The file of a test, as pytest writes it."""
    return item.nodeid.split("::")[0]


def function_of(item: pytest.Item) -> str:
    """The name of a test without its case."""
    return item.nodeid.split("[")[0]


def sort_longest_first(items: list[pytest.Item], slow: Mapping[str, float]) -> None:
    """Begin with the files that take longest: else one worker ends long after the others."""
    seconds: Counter[str] = Counter()
    for item in items:
        seconds[file_of(item)] += slow.get(function_of(item), _SECONDS)
    items.sort(key=lambda item: -seconds[file_of(item)])


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
