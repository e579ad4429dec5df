"""What it means that results are the same, and result files that say something else of themselves."""

import dataclasses
import json
import zipfile

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
    """Change what the file says of itself, or leave an array out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != leave_out}
    told = json.loads(members["result.json"])
    for name, value in changes.items():
        if isinstance(value, dict):
            told[name] |= value
        else:
            told[name] = value
    members["result.json"] = json.dumps(told)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
