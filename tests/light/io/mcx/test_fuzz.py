"""Damaged and hostile MCX files: only `InvalidInput` may come out of the reader."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.mcx.jdata import encode_array
from tests.fuzzing import fuzzed, refusal
from tests.light.io.mcx.samples import case, colin, onecube

SHAPES = [
    {"Name": "all"},
    {"Origin": [0, 0, 0]},
    {"Grid": {"Tag": 1, "Size": [6, 7, 8]}},
    {"Sphere": {"Tag": 2, "O": [3, 3, 3], "R": 2}},
    {"Box": {"Tag": 1, "O": [1, 1, 1], "Size": [2, 2, 2]}},
    {"Subgrid": {"Tag": 2, "O": [1, 2, 3], "Size": [1, 1, 1]}},
    {"Cylinder": {"Tag": 2, "C0": [0, 0, 0], "C1": [5, 5, 5], "R": 1.5}},
    {"UpperSpace": {"Tag": 1, "Coef": [1, 1, 1, 18]}},
    {"XSlabs": {"Tag": 1, "Bound": [[1, 2], [4, 5]]}},
    {"ZLayers": [[1, 2, 1], [7, 8, 2]]},
]
PATTERN = {
    "Type": "pattern", "Pos": [1, 1, 0, 1], "Dir": [0, 0, 1, 0], "Param1": [3, 0, 0, 3], "Param2": [0, 2, 0, 2],
    "SrcNum": 1, "Pattern": {"Nx": 3, "Ny": 2, "Data": [0, 1, 2, 3, 4, 5]},
}  # fmt: skip
LINE = {"Type": "slit", "Pos": [1, 1, 0], "Dir": [0, 0, 1, "_NaN_"], "Param1": [3, 0, 0, 0]}
SESSION = {"BCFlags": "ccmccr010101", "MinEnergy": 0.01, "DoSpecular": 1, "MaxDetPhoton": 10, "OutputType": "x"}
FILES = {
    "shapes": case(Session=SESSION, Optode={"Source": PATTERN}, Shapes=SHAPES),
    "array": colin(),
    "plain": onecube(),
    "coefficients": case(
        Domain={"MediaFormat": "muamus_float", "Step": [2, 2, 2]},
        Optode={"Source": LINE},
        Shapes=encode_array(np.ones((3, 4, 5, 2), np.float32)),
    ),
}
ODD = [
    None, True, False, 0, 1, -1, 2, 3, 0.5, -0.0, 1e-300, 1e300, float("nan"), float("inf"), 2**31, 2**63, 10**400, "",
    "x", "_NaN_", "-_Inf_", "\0", "../..", "../x.nii", "muamus_float", "mua_float", "svmc", "cone", "planar", "slit",
    "gaussian", "uint16", "double", "lzma", "gzip", "lz4", "col", [], [0], [1, 2, 3], [0, 0, 0], [1e300] * 3, [-1] * 4,
    [[1, 2, 3]], [[1, 2], [3, 4]], ["a", "b", "c"], [None] * 3, [[]], {}, {"a": 1}, [{}], {"_ArraySize_": [2]},
    [32767, 1, 1], [10**9] * 3, [10**400] * 3,
]  # fmt: skip


def places(node, path=()):
    """Every place in a file, as the keys that lead to it."""
    if path:
        yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def changed(root, changes):
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


@pytest.mark.parametrize("name", FILES)
def test_changed_values(tmp_path, name):
    refused = []
    assert not refusal(read_mcx, tmp_path / "a.json", json.dumps(FILES[name]).encode())

    @fuzzed(250)
    @given(CHANGES)
    def run(changes):
        data = json.dumps(changed(FILES[name], changes)).encode()
        refused.append(bool(refusal(read_mcx, tmp_path / "a.json", data)))

    run()
    assert len(refused) // 10 < sum(refused) < len(refused)


@pytest.mark.parametrize("name", ["shapes", "array"])
def test_changed_bytes(tmp_path, name):
    good = json.dumps(FILES[name]).encode()
    cuts = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 12), st.binary(max_size=3))

    @fuzzed(250)
    @given(st.lists(cuts, min_size=1, max_size=3))
    def run(changes):
        data = good
        for where, length, new in changes:
            at = int(where * len(data))
            data = data[:at] + new + data[at + length :]
        refusal(read_mcx, tmp_path / "a.json", data)

    run()
