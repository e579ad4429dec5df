"""Damaged and hostile MCX files: only `InvalidInput` may come out of the reader."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.mcx.io.cases import read_mcx
from napari_gpubio.mcx.io.jdata import encode_array
from tests.fuzzing import CHANGES, changed_values, fuzzed, refusal
from tests.mcx.samples import case, colin, onecube

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


def check_changed_values(path, name, examples):
    refused = []
    assert not refusal(read_mcx, path, json.dumps(FILES[name]).encode())

    @fuzzed(examples)
    @given(CHANGES)
    def run(changes):
        data = json.dumps(changed_values(FILES[name], changes)).encode()
        refused.append(bool(refusal(read_mcx, path, data)))

    run()
    assert len(refused) // 10 < sum(refused) < len(refused)


def check_changed_bytes(path, name, examples):
    good = json.dumps(FILES[name]).encode()
    cuts = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 12), st.binary(max_size=3))

    @fuzzed(examples)
    @given(st.lists(cuts, min_size=1, max_size=3))
    def run(changes):
        data = good
        for where, length, new in changes:
            at = int(where * len(data))
            data = data[:at] + new + data[at + length :]
        refusal(read_mcx, path, data)

    run()


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(tmp_path, name):
    check_changed_values(tmp_path / "a.json", name, 80)
    check_changed_bytes(tmp_path / "a.json", name, 60)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_hundreds_of_damaged_files(tmp_path, name):
    check_changed_values(tmp_path / "a.json", name, 250)
    check_changed_bytes(tmp_path / "a.json", name, 250)
