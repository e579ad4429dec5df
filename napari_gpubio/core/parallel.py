"""Who may enter Numba's worker threads.

Numba's simplest threading layer, the only one in some installations (macOS wheels, for instance), aborts the process if
two Python threads enter it at once. Every call of a parallel kernel is therefore made inside `cpu_threads`, which lets
one caller in at a time there, and everybody where the layer allows it. Calls are short, so nobody waits long.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numba

_one_at_a_time = threading.RLock()


@contextmanager
def cpu_threads() -> Iterator[None]:
    """Enclose calls of functions compiled with ``parallel=True``."""
    if _layer_is_thread_safe():
        yield
    else:
        with _one_at_a_time:
            yield


def _layer_is_thread_safe() -> bool:
    try:
        return numba.threading_layer() != "workqueue"
    except ValueError:  # no parallel kernel has run yet, so the layer is not chosen
        return False
