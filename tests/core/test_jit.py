"""Compiled CPU functions: results for any blocks, where the machine code is kept, atomic addition among threads."""

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numba as nb
import numpy as np
import pytest
from numba.core.errors import TypingError

from napari_gpubio.core import jit
from napari_gpubio.core.intrinsics import atomic_add


@jit.leaf
def squared(x):
    return x * x


@jit.helper
def halved(x):
    return squared(x) / 2.0


@jit.kernel
def fill(start, stop, out):
    for i in range(start, stop):
        out[i] += halved(np.float64(i))


@jit.kernel
def divide(start, stop, out):
    for i in range(start, stop):
        out[i] = 1.0 / out[i]


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
@pytest.mark.parametrize("least", [1, 3, 10_000])
@pytest.mark.parametrize("threads", [None, 1, 2, 3])
def test_every_item_is_done_once(count, least, threads):
    out = np.zeros(count)
    jit.run_blocks(fill, count, out, least=least, threads=threads)
    np.testing.assert_array_equal(out, np.arange(count) ** 2 / 2)


def test_division_by_zero_is_infinite():
    out = np.zeros(1)
    jit.run_blocks(divide, 0, out)
    assert out[0] == 0.0
    jit.run_blocks(divide, 1, out)
    assert np.isinf(out[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_block_is_raised(threads):
    def fail(start, stop):
        raise ValueError(f"{start} to {stop}")

    with pytest.raises(ValueError, match=r"\d to"):
        jit.run_blocks(fail, 8, threads=threads)


def test_what_was_given_is_let_go_at_once_without_the_garbage_collector():
    given = np.zeros(1000)
    gone = weakref.ref(given)
    gc.disable()
    try:
        jit.run_blocks(fill, len(given), given, threads=2)
        del given
        assert gone() is None
    finally:
        gc.enable()


def test_threads_may_call_at_the_same_time():
    outs = [np.zeros(500) for _ in range(6)]
    workers = [threading.Thread(target=jit.run_blocks, args=(fill, 500, out)) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for out in outs:
        np.testing.assert_array_equal(out, np.arange(500) ** 2 / 2)


# A kernel that is made around a function, as those that trace rays are: Numba alone would not know it again.
KEPT = """
from napari_gpubio.core import jit

@jit.helper
def same(x):
    return x

def made(inner):
    def one(start, stop):
        return inner(stop)
    return jit.kernel(one)

one = made(same)
"""
PROGRAM = """
import importlib, sys
from pathlib import Path

def hits():
    sys.modules.pop("kept", None)
    one = importlib.import_module("kept").one
    assert one(0, 7) == 7
    return sum(one.stats.cache_hits.values())

def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]

print(hits())
for ending in sys.argv[1:]:
    for damage in (lambda data: b"", lambda data: data[:-40], flipped):
        (file,) = Path("cache").rglob(f"*.{ending}")
        file.write_bytes(damage(file.read_bytes()))
        print(hits(), hits())
"""


def output_of(folder, *endings):
    """What a process prints that finds its function compiled or not, and damages the files with these endings."""
    (folder / "kept.py").write_text(KEPT)
    (folder / "program.py").write_text(PROGRAM)
    environment = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(Path(jit.__file__).parents[2])}
    command = [sys.executable, "program.py", *endings]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines(), done.stderr


def test_the_cache_is_used_by_the_next_process_and_compiled_again_where_it_is_damaged(tmp_path):
    assert output_of(tmp_path) == (["0"], "")
    found, said = output_of(tmp_path, "nbi", "nbc")
    assert found == ["1", *["0 1"] * 6]
    assert said.count("is damaged; it is compiled again") == 6
    assert output_of(tmp_path) == (["1"], "")
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 1


def test_kernels_that_one_function_makes_are_told_apart_by_their_names():
    def made(inner):
        def whole(start, stop):
            return inner(np.float64(stop))

        whole.__qualname__ = f"whole_{inner.__name__}"
        return jit.kernel(whole)

    assert [made(inner)(0, 3) for inner in (squared, halved)] == [9.0, 4.5]


def test_numba_is_left_as_it_was():
    before = nb.config.CACHE_DIR
    jit.kernel(lambda start, stop: None)
    assert before == nb.config.CACHE_DIR


# -- atomic addition ---------------------------------------------------------------------------------------------------


MANY = 400_000


@jit.kernel
def add_many(start, stop, tally, value):
    for i in range(start, stop):
        atomic_add(tally, i % len(tally), value)


@jit.kernel
def take_places(start, stop, counter, taken):
    for _ in range(start, stop):
        taken[atomic_add(counter, 0, 1)] += 1


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
@pytest.mark.parametrize("cells", [1, 3])
def test_no_addition_is_lost(dtype, cells):
    tally = np.zeros(cells, dtype)
    jit.run_blocks(add_many, MANY, tally, dtype(3), threads=2)
    assert tally.sum() == 3 * MANY
    assert tally.max() - tally.min() <= 3


@pytest.mark.parametrize(
    ("start", "value", "times", "total"),
    [(5, 2**64 - 1, 7, 2**64 - 2), (2**62, 1, 1000, 2**62 + 1000)],
    ids=["wraps round as on a GPU: what is negative is its complement", "beyond the reach of a double"],
)
def test_sums_are_exact(start, value, times, total):
    tally = np.array([start], np.uint64)
    jit.run_blocks(add_many, times, tally, np.uint64(value))
    assert int(tally[0]) == total


def test_every_place_is_handed_out_once():
    counter, taken = np.zeros(1, np.int64), np.zeros(MANY, np.int64)
    jit.run_blocks(take_places, MANY, counter, taken, threads=2)
    assert counter[0] == MANY
    assert (taken == 1).all()


@pytest.mark.parametrize(
    "array", [np.zeros(3, np.float64), np.zeros(3, np.uint32), np.zeros((2, 2), np.uint64), np.zeros(6, np.uint64)[::2]]
)
def test_other_arrays_are_refused(array):
    with pytest.raises(TypingError, match="atomic_add takes a one-dimensional contiguous array of 64-bit integers"):
        add_many(0, 2, array, np.uint64(1))
