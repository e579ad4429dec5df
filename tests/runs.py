"""Runs of any engine, step by step: to their end, stopped, closed; threads; what both backends of an engine share."""

import gc
import inspect
import os
import subprocess
import sys
import threading

import numba

from napari_gpubio.core import jit
from tests.harness.times import PASSED


def finished(steps):
    """All steps that are left, each looked at in time, and the result."""
    seen = []
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return seen, end.value
        seen.append(step.showing(step.preview))


def stopped(steps, stop, after, rest=3):
    """The result of a run that is stopped by its event after so many steps; at most ``rest`` more may follow."""
    for _ in range(after):
        next(steps)
    stop.set()
    seen, result = finished(steps)
    assert len(seen) <= rest  # what was begun on each GPU is finished
    return result


def check_threads_change_nothing(request, run, check_same):
    """One and two Numba threads give the same; with one processor, in another Python that uses two."""
    if numba.config.NUMBA_NUM_THREADS < 2:
        _run_again_with_two_threads(request)
        return
    check_same(_by_threads(1, run), _by_threads(2, run))


def _by_threads(count, run):
    before, thread_count = numba.get_num_threads(), jit.thread_count
    numba.set_num_threads(count)
    jit.thread_count = lambda: count
    try:
        return run()
    finally:
        numba.set_num_threads(before)
        jit.thread_count = thread_count


def _run_again_with_two_threads(request):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", request.node.nodeid]
    two = os.environ | {"NUMBA_NUM_THREADS": "2", PASSED: ""}  # Numba reads it when it is imported
    done = subprocess.run(command, cwd=request.config.rootpath, env=two, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def workers():
    """Threads of the package that are at work; those of compiled functions wait for the next call."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("napari-gpubio")]


def check_closing_frees(pretended, steps):
    """Closing a run on all of three pretended GPUs in the middle gives their memory back."""
    for _ in range(4):
        next(steps)
    assert all(pretended.used_bytes[i] > 0 for i in range(3))
    steps.close()
    gc.collect()
    assert not any(pretended.used_bytes.values())
    assert not workers()


def check_same_methods(cpu, gpu):
    """Both backends' ``Run`` have the same public methods."""
    for name, method in inspect.getmembers(cpu.Run, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(method) == inspect.signature(getattr(gpu.Run, name)), name
