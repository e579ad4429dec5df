"""Seconds of a run do not contain compilation, nor the loading of machine code, in whatever thread."""

import functools
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path

import numba as nb
import pytest

from napari_gpubio.core import chunks, jit, kernels, timing
from napari_gpubio.core.device import CPU
from napari_gpubio.core.timing import RunClock, begin_compiling, compiled_between, compiling, end_compiling

assert jit  # which listens to Numba


@pytest.fixture
def at(monkeypatch):
    """Set the time, which begins with this test; nothing has been compiled."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    for name, empty in (
        ("_over", []),
        ("_running", {}),
        ("_begun", {}),
    ):  # threads of other tests may have had our number
        monkeypatch.setattr(timing, name, empty)

    def set_time(seconds):
        now[0] = seconds

    return set_time


def in_thread(do):
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def test_a_second_in_which_several_threads_compile_counts_once(at):
    """As where every GPU of a machine compiles the same kernel: the run would take less than no time."""
    clock = RunClock()
    holding, go = threading.Event(), threading.Event()

    def compile_long():
        with compiling():
            holding.set()
            go.wait(10)

    other = threading.Thread(target=compile_long)
    at(1.0)
    other.start()
    holding.wait(10)
    at(2.0)
    with compiling(), compiling():
        at(4.0)
    assert compiled_between(-math.inf, math.inf) == 2.0  # the other has not ended
    at(5.0)
    go.set()
    other.join()
    at(7.0)
    assert compiled_between(-math.inf, math.inf) == 4.0
    assert clock.seconds == 3.0


def test_what_was_compiled_before_a_clock_was_made_is_not_taken_off_it(at):
    begin_compiling()
    at(10.0)
    clock = RunClock()
    at(11.0)
    end_compiling()
    at(13.0)
    assert compiled_between(-math.inf, math.inf) == 11.0
    assert clock.seconds == 2.0


def test_a_thread_that_compiles_after_another_counts_too(at):

    def compile_from(start, stop):
        at(start)
        begin_compiling()
        at(stop)
        end_compiling()

    for start, stop in ((1.0, 2.0), (5.0, 8.0)):
        in_thread(lambda start=start, stop=stop: compile_from(start, stop))
    assert compiled_between(-math.inf, math.inf) == 4.0


def test_a_thread_that_dies_while_it_compiles_stops_no_clock(at):
    clock = RunClock()
    in_thread(begin_compiling)
    with compiling():
        at(2.0)
    at(3.0)
    assert clock.seconds == 1.0


def test_a_function_that_numba_compiles_takes_no_time():
    def function(x):
        total = 0.0
        for i in range(100):
            total += x[i % len(x)] * i
        return total

    compiled = nb.njit(function)
    clock, begun = RunClock(), time.perf_counter()
    assert compiled((1.0, 2.0, 3.0)) > 0
    assert clock.seconds < 0.3 * (time.perf_counter() - begun)


def test_a_kernel_that_nvrtc_compiles_at_its_first_launch_takes_no_time(at, fake_gpu, monkeypatch):
    """Also the one of a source that nothing has been compiled for."""
    fake_gpu()

    class Module:
        def get_function(self, name):
            at(8.0)
            return name

    monkeypatch.setattr(kernels, "_module", functools.cache(lambda *_: Module()))
    at(0.0)
    clock = RunClock()
    assert kernels.kernel(Path("voxels.cu"), "trace_photons", defines=("SOURCE_KIND=42",)) == "trace_photons"
    at(9.0)
    assert clock.seconds == 1.0


def test_the_length_of_chunks_does_not_depend_on_compilation(at):
    """A first chunk that compiles for a minute would be followed by tiny ones."""

    class Run:
        device = CPU

        def __init__(self, minutes, now):
            self._minutes, self._now = minutes, now

        def bytes_per_item(self):
            return 1

        def advance(self, start, count):
            if start == 0 and self._minutes:
                with compiling():
                    self._pass(60.0 * self._minutes)
            self._pass(1e-3 * count)

        def _pass(self, seconds):
            self._now += seconds
            at(self._now)

    def chunks_of(minutes, now):
        at(now)
        return list(chunks.advance_in_chunks([Run(minutes, now)], 5000, first_chunk=10))

    assert chunks_of(1.0, 0.0) == pytest.approx(chunks_of(0.0, 1000.0), rel=0.02)  # but for the rounding of seconds


_TWICE = """
import json, time, numpy as np
from napari_gpubio import layered, light, optics
domain = optics.Domain(labels=np.ones((9, 9, 9), np.uint8), affine=np.eye(4), media=(optics.Medium(label=1),))
layer = layered.Layer(n=1.0, mua_per_mm=1, mus_per_mm=9, g=0.75, thickness_mm=0.2)
slab = layered.LayeredMedium(layers=(layer,))
pencil = optics.Pencil(position_mm=(4, 4, -1))
runs = [
    lambda: light.simulate(domain, pencil, light.LightSettings(photons=10), device="cpu"),
    lambda: layered.simulate(slab, layered.LayeredSettings(photons=10), device="cpu"),
]
found = []
for run in runs:
    begun = time.perf_counter()
    seconds = run().parameters["seconds"]
    found.append((seconds, time.perf_counter() - begun))
print(json.dumps(found))
"""


def test_the_first_run_of_a_process_is_reported_no_slower_than_it_was():
    """In a new process even ten photons wait for Numba's modules and machine code, which are no part of their speed."""
    done = subprocess.run([sys.executable, "-c", _TWICE], capture_output=True, text=True, check=True)
    for seconds, wall in json.loads(done.stdout):
        assert 0 <= seconds < 0.5 * wall
