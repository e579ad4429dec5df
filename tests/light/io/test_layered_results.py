"""Result files of light in layers: all comes back to the last bit, runs go on from them, damage is refused."""

import dataclasses
import functools
import json
import math
import sys
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io import archive, load_layered_result, save_layered_result, save_result
from napari_gpubio.light.io.mco import read_mco, write_mco
from napari_gpubio.light.layers.beams import Beam, convolved
from napari_gpubio.light.layers.model import Layer, LayeredMedium
from napari_gpubio.light.layers.run import simulate, simulate_steps
from napari_gpubio.light.layers.settings import LayeredSettings
from tests import runs
from tests.light.full_disk import full_disk
from tests.light.layers.samples import check_same_bits
from tests.light.result_files import check_same, rewritten
from tests.light.result_samples import sample_result

MEDIUM = LayeredMedium(
    name="skin µ",
    layers=(
        Layer(name="glass", n=1.5, thickness_mm=0.1 + 0.2),
        Layer(name="", n=1.37, mua_per_mm=0.05, mus_per_mm=2.0, g=0.8, thickness_mm=math.inf),
    ),
    n_above=1.1,
    n_below=1.33,
)
GRID = {"radial_bins": 10, "depth_bins": 12, "angle_bins": 5, "dr_mm": 0.5, "dz_mm": 0.4}
SETTINGS = LayeredSettings(photons=2000, batches=4, seed=2**63, edge="drop", **GRID)


@functools.cache
def whole(**changes):
    return simulate(MEDIUM, dataclasses.replace(SETTINGS, **changes), device="cpu")


def stopped(after=8):
    """A run that ended in the middle of a batch."""
    stop = threading.Event()
    return runs.stopped(simulate_steps(MEDIUM, SETTINGS, device="cpu", stop=stop), stop, after)


def as_read(result):
    """A result as a file gives it back: its parameters went through JSON."""
    return dataclasses.replace(result, parameters=json.loads(json.dumps(result.parameters)))


@pytest.fixture
def small_chunks(in_chunks_of):
    in_chunks_of(90)


# -- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    "make",
    [whole, lambda: whole(absorption=False), lambda: convolved(whole(), Beam(kind="flat", radius_mm=0.7))],
    ids=["whole", "no map", "beam"],
)
def test_everything_comes_back(tmp_path, make, compress):
    result = make()
    save_layered_result(tmp_path / "r.npz", result, compress=compress)
    found = load_layered_result(str(tmp_path / "r.npz"))
    check_same(found, as_read(result))
    assert found.medium == MEDIUM
    assert [path.name for path in tmp_path.iterdir()] == ["r.npz"]


def test_what_came_from_mcml_comes_back(tmp_path):
    """Without errors (NaN), and without tallies."""
    write_mco(tmp_path / "r.mco", whole())
    result = read_mco(tmp_path / "r.mco")
    assert (math.isnan(result.absorbed.error), result.state) == (True, None)
    save_layered_result(tmp_path / "r.npz", result)
    check_same(load_layered_result(tmp_path / "r.npz"), as_read(result))


def test_a_stopped_run_goes_on_from_its_file(tmp_path, small_chunks):
    part = stopped()
    assert 0 < part.launched < 2000
    assert part.launched % part.state.batch_size
    save_layered_result(tmp_path / "r.npz", part)
    found = load_layered_result(tmp_path / "r.npz")
    check_same(found, as_read(part))
    check_same_bits(simulate(found.medium, found.settings, device="cpu", resume=found), whole())


def test_more_photons_are_traced_from_a_file(tmp_path):
    save_layered_result(tmp_path / "r.npz", whole())
    more = dataclasses.replace(SETTINGS, photons=2750)
    found, expected = (
        simulate(MEDIUM, more, device="cpu", resume=earlier)
        for earlier in (load_layered_result(tmp_path / "r.npz"), whole())
    )
    assert found.launched == 2750
    check_same_bits(found, expected)


def test_a_loaded_result_is_convolved_to_the_same_bits(tmp_path):
    save_layered_result(tmp_path / "r.npz", whole())
    beam = Beam(radius_mm=1.0)
    check_same_bits(convolved(load_layered_result(tmp_path / "r.npz"), beam), convolved(whole(), beam))


def test_the_tallies_can_be_left_out(tmp_path):
    save_layered_result(tmp_path / "r.npz", whole(), resumable=False)
    found = load_layered_result(tmp_path / "r.npz")
    check_same(found, as_read(dataclasses.replace(whole(), state=None)))
    with pytest.raises(InvalidInput, match="the result to resume has no saved state; save results with it"):
        simulate(MEDIUM, SETTINGS, device="cpu", resume=found)


def test_the_text_tells_medium_and_settings_in_strict_json(tmp_path):
    save_layered_result(tmp_path / "r.npz", whole())
    with np.load(tmp_path / "r.npz") as file:
        np.testing.assert_array_equal(file["result/A_rz"], whole().A_rz.value)
        text = file["result.json"]
    told = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    assert (told["format"], told["version"]) == ("napari-gpubio layered light result", 1)
    assert (told["settings"]["seed"], told["medium"]["n_below"]) == (2**63, 1.33)
    assert [row["thickness_mm"] for row in told["medium"]["layers"]] == [0.1 + 0.2, None]
    assert told["absorbed"] == whole().absorbed._asdict()
    assert told["parameters"]["device"] == whole().parameters["device"]


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "r.npz"
    save_layered_result(path, whole())
    return path


def test_a_truncated_file_is_refused(saved):
    content = saved.read_bytes()
    for length in range(1, len(content), max(1, len(content) // 40)):
        saved.write_bytes(content[:length])
        with pytest.raises(InvalidInput, match=r"r\.npz cannot be read .*; it is incomplete, damaged"):
            load_layered_result(saved)
    saved.write_bytes(b"")
    with pytest.raises(InvalidInput, match="is empty"):
        load_layered_result(saved)


def test_a_changed_byte_never_goes_unnoticed_in_the_numbers(saved):
    content, expected, refused = bytearray(saved.read_bytes()), as_read(whole()), 0
    for place in np.random.default_rng(3).integers(0, len(content), 100):
        changed = bytearray(content)
        changed[place] ^= 0x10
        saved.write_bytes(changed)
        try:
            check_same(load_layered_result(saved), expected)
        except InvalidInput:
            refused += 1
    assert refused > 60


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 2}, "has version 2 of its format and only version 1 can be read here; update napari-gpubio"),
        ({"format": "other"}, "is not a result of light in layers; give a file that save_layered_result has written"),
        ({"settings": {"polarized": True}}, r"r\.npz cannot be used: 'polarized' of its LayeredSettings is not known"),
        ({"settings": {"photons": -1}}, r"r\.npz cannot be used: photons is -1"),
        ({"medium": {"layers": []}}, r"r\.npz cannot be used: there are 0 layers"),
        ({"medium": {"n_above": 1.2}}, r"r\.npz cannot be used: its tallies are of other layers or settings"),
        ({"medium": {"layers": [{}]}}, r"r\.npz cannot be read \(KeyError"),
        ({"absorbed": 3}, r"r\.npz cannot be read \(TypeError"),
    ],
)
def test_what_the_file_says_of_itself_is_checked(saved, changes, sentence):
    rewritten(saved, **changes)
    with pytest.raises(InvalidInput, match=sentence):
        load_layered_result(saved)


@pytest.mark.parametrize("name", ["result/A_rz", "result/Rd_a_error", "state/key", "state/numbers_3"])
def test_a_file_that_lacks_an_array_is_refused(saved, name):
    rewritten(saved, leave_out=f"{name}.npy")
    with pytest.raises(InvalidInput, match=r"r\.npz cannot be (read|used)"):
        load_layered_result(saved)


def test_files_of_other_kinds_are_refused(tmp_path):
    save_result(tmp_path / "a.npz", sample_result((4, 4, 4)))
    with pytest.raises(InvalidInput, match=r"a\.npz is a result of light transport, not a result of light in layers"):
        load_layered_result(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", A_rz=np.ones(3))
    with pytest.raises(InvalidInput, match=r"b\.npz is not a result of light in layers"):
        load_layered_result(tmp_path / "b.npz")
    (tmp_path / "c.npz").write_text("hello")
    with pytest.raises(InvalidInput, match=r"c\.npz cannot be read \(BadZipFile"):
        load_layered_result(tmp_path / "c.npz")
    with pytest.raises(InvalidInput, match="does not exist"):
        load_layered_result(tmp_path / "d.npz")


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(saved, monkeypatch):
    monkeypatch.setattr(archive, "free_memory_bytes", lambda _device: 1000)
    with pytest.raises(InvalidInput, match=r"r\.npz needs \d+ MB of memory and 0 MB are free"):
        load_layered_result(saved)


# -- what is written --------------------------------------------------------------------------------------------------


def test_the_name_ends_in_npz(tmp_path):
    with pytest.raises(InvalidInput, match=r"r\.mco does not end in \.npz"):
        save_layered_result(tmp_path / "r.mco", whole())
    with pytest.raises(InvalidInput, match=r"folder .*none does not exist"):
        save_layered_result(tmp_path / "none" / "r.npz", whole())


@pytest.mark.skipif(sys.platform == "win32", reason="a process's files have no limit there")
def test_a_full_disk_leaves_the_old_result(saved):
    before = saved.read_bytes()
    with full_disk(4096), pytest.raises(InvalidInput, match=r"r\.npz could not be written \(File too large\); free"):
        save_layered_result(saved, whole(photons=2100))
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["r.npz"]
