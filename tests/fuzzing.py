"""How damaged files are tried on a reader: many of them, the same ones each time, and only `InvalidInput` may come."""

import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput


def fuzzed(examples: int) -> settings:
    """Decorator: so many examples, the same in every run, however long they take."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def refusal(read: Callable[[Path], Any], path: Path, data: bytes) -> str:
    """The sentence with which a file is refused, or an empty text; any other error fails the test."""
    path.write_bytes(data)
    message = ""
    try:
        read(path)
    except InvalidInput as error:
        message = str(error)
    assert not message or path.name in message
    return message


# -- JSON of any other shape ------------------------------------------------------------------------------------------

ODD = [
    None, True, False, 0, 1, -1, 2, 3, 0.5, -0.0, 1e-300, 1e300, float("nan"), float("inf"), 2**31, 2**63, 10**400, "",
    "x", "_NaN_", "-_Inf_", "\0", "../..", "../x.nii", "muamus_float", "mua_float", "svmc", "cone", "planar", "slit",
    "gaussian", "uint16", "double", "lzma", "gzip", "lz4", "col", [], [0], [1, 2, 3], [0, 0, 0], [1e300] * 3, [-1] * 4,
    [[1, 2, 3]], [[1, 2], [3, 4]], ["a", "b", "c"], [None] * 3, [[]], {}, {"a": 1}, [{}], {"_ArraySize_": [2]},
    [32767, 1, 1], [10**9] * 3, [10**400] * 3,
]  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a file, as the keys that lead to it."""
    if path:
        yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def changed_values(root: Any, changes: Iterable[tuple[float, str, int]]) -> Any:
    """A copy of a file's JSON with the changes of `CHANGES`."""
    root = copy.deepcopy(root)
    for where, how, what in changes:
        every = list(places(root))
        if not every:
            return root
        *path, key = every[int(where * len(every))]
        node = root
        for step in path:
            node = node[step]
        if how == "remove":
            del node[key]
        elif how == "wrap":
            node[key] = [node[key]]
        elif how == "repeat" and isinstance(node[key], list | str):
            node[key] = node[key] * 2
        else:
            node[key] = copy.deepcopy(ODD[what])
    return root


CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(["remove", "wrap", "repeat", "odd", "odd", "odd"]),
        st.integers(0, len(ODD) - 1),
    ),
    min_size=1,
    max_size=3,
)
