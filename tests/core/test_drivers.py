"""The driver of kernels: which backend is opened where, what is closed, merged, and handed over, and workers."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.drivers import Problem, Run, Runs, by_workers
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.steps import drive

GPUS = Device("cuda", (0, 2))


class Squares(Problem):
    """Squares of numbers, in a kernel package of the name that the fixture gives it."""

    work = "the squares"
    at_first = 3
    items = 10

    def memory(self, device):
        return Memory(results=8 * self.items)

    def options(self, device):
        return {"sharers": len(device.indices)} if device.is_gpu else {}


class Sum:
    """A tally."""

    def __init__(self, value):
        self.value = value

    def merge(self, other, problem):
        assert isinstance(problem, Squares)
        self.value += other.value


class Squaring(Run):
    """A run that notes how it was opened, and that it was closed."""

    log: list

    def __init__(self, problem, *, device=CPU, fails_on=None, **options):
        super().__init__(problem, device=device)
        if str(device) == fails_on:
            raise RuntimeError("this one cannot be opened")
        self.log.append(("open", str(device), options))
        self._sum = 0

    def advance(self, start, count):
        part = np.arange(start, start + count) ** 2
        self._sum += int(part.sum())
        self._finished.append((start, part))

    def snapshot(self):
        return Sum(self._sum)

    def close(self):
        super().close()
        self.log.append(("close", str(self.device)))


@pytest.fixture
def log(monkeypatch, fake_gpu):
    """Make modules of both backends, and return the log of their runs."""
    fake_gpu(count=3)
    monkeypatch.setattr(Squares, "__module__", "made_up.kernels.squares.problem")
    monkeypatch.setattr(Squaring, "log", found := [], raising=False)
    for name in ("cpu", "gpu"):
        monkeypatch.setitem(sys.modules, f"made_up.kernels.squares.{name}", SimpleNamespace(Run=Squaring))
    for name in ("made_up", "made_up.kernels", "made_up.kernels.squares"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__path__=[]))
    return found


@pytest.mark.parametrize("device", [CPU, GPUS])
def test_all_items_are_done_on_every_processor_and_the_runs_are_closed(log, device):
    with Runs(Squares(), device) as runs:
        assert drive(runs.steps("squaring")) == 10
        values = dict(itertools.chain.from_iterable(enumerate(part, start) for start, part in runs.take()))
        total, more = runs.tally().value, runs.tally(Sum(1000)).value
    assert values == {n: n**2 for n in range(10)}
    assert (total, more) == (285, 1285)
    opened = [("open", "cpu", {})] if device is CPU else [("open", f"cuda:{i}", {"sharers": 2}) for i in (0, 2)]
    assert log[: len(opened)] == opened
    assert sorted(log[len(opened) :]) == [("close", name) for _, name, _ in opened]


def test_a_run_that_cannot_be_opened_leaves_none_open(log):
    with pytest.raises(RuntimeError, match="cannot be opened"):
        Runs(Squares(), GPUS, fails_on="cuda:2")
    assert [entry[:2] for entry in log] == [("open", "cuda:0"), ("close", "cuda:0")]


def test_runs_are_closed_after_an_error(log):
    with pytest.raises(ZeroDivisionError), Runs(Squares(), CPU):
        1 / 0  # noqa: B018
    assert log[-1] == ("close", "cpu")


def test_a_closed_run_holds_nothing(log):
    run = Squaring(Squares())
    run.close()
    run.close()
    assert vars(run) == {"device": CPU}


# -- workers ----------------------------------------------------------------------------------------------------------


class Client:
    """A cluster of two threads whose tasks are done when they are asked for."""

    def __init__(self):
        self.ahead, self.cancelled = [], None
        self._sent = self._taken = 0

    def nthreads(self):
        return {"one": 1, "other": 1}

    def scatter(self, problem, *, broadcast, hash):  # noqa: A002 - Dask's
        return problem

    def submit(self, do, problem, part, device, *, pure, retries):
        self._sent += 1
        self.ahead.append(self._sent - self._taken)
        return SimpleNamespace(result=lambda: do(problem, part, device), release=self._release)

    def _release(self):
        self._taken += 1

    def cancel(self, tasks):
        self.cancelled = len(tasks)


def done_by(problem, part, device):
    return f"{problem} {part} on {device}"


@pytest.mark.parametrize(("most_ahead", "most"), [(1, 2), (2, 4), (0, 7)])
def test_workers_give_ranges_in_order_and_only_some_ahead(most_ahead, most):
    client, ranges = Client(), [(n, n + 1) for n in range(7)]
    found = list(by_workers(client, done_by, "fibers", iter(ranges), "cpu", most_ahead=most_ahead))
    assert found == [f"fibers {part} on cpu" for part in ranges]
    assert (max(client.ahead), client.cancelled) == (most, 0)


def test_what_workers_have_not_done_is_cancelled():
    client = Client()
    steps = by_workers(client, done_by, "fibers", [(0, 1), (1, 2), (2, 3)], "cpu")
    next(steps)
    steps.close()
    assert client.cancelled == 3
