"""Where values live: arrays by checksum, results by the operations that made them."""

import functools
import threading
from collections import OrderedDict
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import map_of
from napari_gpubio.core.operations.arrays import array_checksum, array_in_file, is_read_later, order_of, size_of
from napari_gpubio.core.operations.kinds import sizes_of
from napari_gpubio.core.operations.records import Held, Operation, Output, Reading

_MAX_BYTES, _SHARE = 8 << 30, 0.25  # of results that a store keeps, at most: bytes, and of the memory


class Store:
    """Arrays and results of a program; results are kept for each kind of device, whose bits differ.

    Parameters
    ----------
    budget
        Bytes of results that are kept; beyond them, what was used longest ago goes, and is made again when needed. As
        much is kept in memory of arrays; beyond that, they wait in temporary files. By default a quarter of the memory,
        and 8 GB at most.
    """

    def __init__(self, budget: int | None = None) -> None:
        if budget is not None:
            self.budget = budget
        self.runs = 0  # how many operations were done
        self._arrays: dict[str, Any] = {}
        self._results: OrderedDict[tuple[str, str], tuple[Any, dict[int, int]]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()

    @functools.cached_property
    def budget(self) -> int:
        """Bytes of results, and of arrays, that are kept in memory."""
        import psutil  # here, for the command line's start does not need it

        return min(_MAX_BYTES, int(_SHARE * psutil.virtual_memory().total))

    def hold(self, array: Any) -> Held:
        """Keep a copy of an array, which may be painted on later.

        An array that is read when parts of it are asked for, such as of dask or of a mapped file, and larger than the
        budget, is kept as it is: all of it is read here, block by block, for its checksum, and must not change after.
        """
        is_elsewhere = is_read_later(array) or map_of(array) is not None
        stays = is_elsewhere and size_of(array) > self.budget
        found = array if stays else np.asarray(array)
        checksum = array_checksum(found)
        if checksum not in self._arrays:
            kept = found if stays else found.copy(order=order_of(found))
            if not stays:
                kept.flags.writeable = False
            with self._lock:
                self._arrays.setdefault(checksum, kept)
                self._put_away()
        return Held(checksum)

    def _put_away(self) -> None:
        """Move what was held first to files, until the rest is within the budget."""
        held = {name: one for name, one in self._arrays.items() if isinstance(one, np.ndarray)}
        inside = {name: one for name, one in held.items() if one.nbytes and map_of(one) is None}
        excess = sum(one.nbytes for one in inside.values()) - self.budget
        for name, array in [*inside.items()][:-1]:  # the last one is about to be used
            if excess <= 0:
                return
            try:
                self._arrays[name] = array_in_file(array)
            except OSError:  # no room there either: it stays where it is
                return
            excess -= array.nbytes

    def array(self, held: Held) -> Any:
        """Return an array that is held; InvalidInput if there is none."""
        if held.checksum not in self._arrays:
            raise InvalidInput(
                f"the array {held.checksum[:8]} is not here; open the session, or load the array, that it came with"
            )
        return self._arrays[held.checksum]

    def adopt_arrays(self, other: "Store") -> None:
        """Hold what another store holds, too."""
        with other._lock:
            arrays = dict(other._arrays)
        with self._lock:
            self._arrays |= arrays

    def keep(self, operation: Operation, kind: str, result: Any) -> None:
        """Keep what an operation made on a kind of device; what is read is the same on all of them."""
        sizes = sizes_of(result)
        with self._lock:
            self._results[_key(operation, kind)] = result, sizes
            while len(self._results) > 1 and self._nbytes() > self.budget:
                self._results.popitem(last=False)

    def _nbytes(self) -> int:
        """Bytes of the results, each array once, which several of them may share."""
        return sum({id_: size for _, sizes in self._results.values() for id_, size in sizes.items()}.values())

    def result(self, operation: Operation, kind: str) -> Any:
        """Return what an operation made on a kind of device, or None if it is not kept."""
        with self._lock:
            if (found := self._results.get(_key(operation, kind))) is None:
                return None
            self._results.move_to_end(_key(operation, kind))
            return found[0]

    def last_result(self, operation: Operation) -> tuple[str, Any] | None:
        """Return what an operation made on whatever kind of device was used last, and that kind; None if not kept."""
        with self._lock:
            found = [(kind, made) for (id_, kind), (made, _) in self._results.items() if id_ == operation.id]
        return found[-1] if found else None

    def last_value(self, output: Output[Any]) -> Any:
        """Return a result that was made on whatever kind of device was used last; None if it is not kept."""
        kept = self.last_result(output.of)
        return None if kept is None else output.value_in(kept[1])

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._results.clear()

    def making(self, operation: Operation, kind: str) -> threading.Lock:
        """Lock of whoever makes the result of an operation."""
        with self._lock:
            return self._making.setdefault(_key(operation, kind), threading.Lock())


def _key(operation: Operation, kind: str) -> tuple[str, str]:
    return operation.id, "" if isinstance(operation, Reading) else kind


STORE = Store()
