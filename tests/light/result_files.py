"""Comparison of results to the last bit, result files with changed headers, and a disk on which no file can grow."""

import dataclasses
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


def check_same(found, expected):
    """Compare any two things, down to the last bit of every number in them."""
    assert type(found) is type(expected)
    if dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            check_same(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, value in expected.items():
            check_same(found[name], value)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_same(one, other)
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()
    else:
        assert found == expected or (found != found and expected != expected)


def rewritten(path, leave_out="", **changes):
    """Change the header of a result file, or leave an array out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != leave_out}
    content = json.loads(members["result.json"])
    for name, value in changes.items():
        if isinstance(value, dict):
            content[name] |= value
        else:
            content[name] = value
    members["result.json"] = json.dumps(content)
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)


@contextmanager
def full_disk(room: int = 1024) -> Iterator[None]:
    """Let no file of this process grow beyond ``room`` bytes; writing more fails as on a full disk (POSIX only)."""
    import resource

    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
