"""Files of MATLAB as SciPy reads and writes them, and probes of HOMER; what odd ones do is in `tests.conformance`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import loadmat, savemat

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.io.matlab import read_matlab
from napari_gpubio.optics.io.nirs import read_nirs
from tests.fuzzing import fuzzed, refusal

CONTENT = {
    "numbers": np.arange(6.0).reshape(2, 3),
    "bytes": np.arange(4, dtype=np.uint8),
    "cube": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
    "text": "micrometers µ",
    "empty": np.empty((0, 3)),
    "SD": {"SrcPos": np.eye(3), "Lambda": [690.0, 830.0], "inner": {"unit": "mm", "n": 3}},
}
CHANGES = st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 255)), min_size=1, max_size=8)


@pytest.mark.parametrize("compress", [False, True])
def test_values_are_those_of_scipy(tmp_path, compress):
    path = tmp_path / "a.mat"
    savemat(path, {**CONTENT, "not wanted": np.zeros(9)}, do_compression=compress)
    found, expected = read_matlab(path, CONTENT), loadmat(path)
    assert set(found) == set(CONTENT)
    for name in ("numbers", "bytes", "cube"):
        np.testing.assert_array_equal(found[name], expected[name])
    assert found["text"] == CONTENT["text"]
    assert found["empty"].size == 0
    np.testing.assert_array_equal(found["SD"]["SrcPos"], np.eye(3))
    np.testing.assert_array_equal(found["SD"]["Lambda"], [[690, 830]])
    assert found["SD"]["inner"]["unit"] == "mm"
    np.testing.assert_array_equal(found["SD"]["inner"]["n"], [[3]])


def test_what_is_no_number_is_none(tmp_path):
    path = tmp_path / "a.mat"
    savemat(path, {"cells": np.array([1, "a"], object), "waves": np.array([1j])})
    assert read_matlab(path, ("cells", "waves", "gone")) == {"cells": None, "waves": None}


def test_a_bomb_takes_little_memory(tmp_path):
    path = tmp_path / "a.mat"
    savemat(path, {"SD": np.zeros(20_000_000)}, do_compression=True)
    with pytest.raises(InvalidInput, match=r"a\.mat: .* damaged"):
        read_nirs(path.rename(path.with_name("a.mat")))


@fuzzed(150)
@given(
    changes=st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 255)), min_size=1, max_size=8), cut=st.integers()
)
def test_damaged_probes_are_read_or_refused(tmp_path, changes, cut):
    good = tmp_path / "good.nirs"
    if not good.exists():
        probe = {"SrcPos": np.eye(3), "DetPos": np.eye(3)[:2], "Lambda": [690.0, 830.0], "SpatialUnit": "mm"}
        savemat(good, {"SD": {**probe, "MeasList": np.ones((2, 4))}}, appendmat=False)
    data = bytearray(good.read_bytes())
    for where, byte in changes:
        data[where % len(data)] = byte
    refusal(read_nirs, tmp_path / "bad.nirs", bytes(data[: len(data) if cut % 3 else cut % len(data)]))
