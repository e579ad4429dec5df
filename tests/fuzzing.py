"""How damaged files are tried on a reader: many of them, the same ones each time, and only `InvalidInput` may come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

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
    said = ""
    try:
        read(path)
    except InvalidInput as error:
        said = str(error)
    assert not said or path.name in said
    return said
