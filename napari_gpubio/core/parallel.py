"""One lock for the CPU's worker threads.

Numba's simplest threading layer (the only one in some installations) must not be entered by two Python threads at
once, and two runs at once on the same cores gain nothing. Every twin's CPU ``advance`` therefore runs under this lock;
chunks are short, so nobody waits long.
"""

import threading

cpu_lock = threading.RLock()
