"""Runs of any engine, step by step: to their end, stopped, closed; and what both twins of an engine have in common."""

import gc
import inspect
import threading


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


def workers():
    """Threads of the package that are at work."""
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
    """Both twins' ``Run`` have the same public methods."""
    for name, method in inspect.getmembers(cpu.Run, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(method) == inspect.signature(getattr(gpu.Run, name)), name
