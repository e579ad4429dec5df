"""Result files: everything comes back to the last bit, damage is refused in a sentence, and nothing is half-written."""

import dataclasses
import errno
import functools
import json
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.io import archive, load_result, save_layered_result, save_result
from napari_gpubio.light.result import Estimate
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.source import Source
from napari_gpubio.light.summary import number_rows
from tests.light.full_disk import full_disk
from tests.light.layers.samples import VAN_DE_HULST, run
from tests.light.result_files import check_same, rewritten
from tests.light.result_samples import layered_domain, sample_result

RANDOM = np.random.default_rng(7)


SETTINGS = LightSettings(photons=4000, batches=4, time_gates_ns=(0.0, 0.1, 5.0), exit_map=True, halves=True)
REQUEST = (
    layered_domain((6, 5, 8)),
    Source(position_mm=(0, 0, 1), direction=(0, 0, -1)),
    SETTINGS,
)
DETECTORS = [Detector(position_mm=(1, 0, 0), radius_mm=1.5)]


@functools.cache
def stopped_run():
    """The result of a run that was stopped in the middle of a batch."""
    stop = threading.Event()
    steps = simulate_steps(*REQUEST, detectors=DETECTORS, device="cpu", stop=stop)
    return drive(steps, lambda step: stop.set() if step.done else None)


def rich_result():
    """A result with everything that one can have, in the rarest form."""
    plain = sample_result((6, 5, 4), (0.0, 0.5, 5.0), photons=20_000, complete=False)
    shape = plain.domain.shape
    domain = dataclasses.replace(
        plain.domain, mua_per_mm=RANDOM.random(shape), mus_per_mm=RANDOM.random(shape), outside_n=1.33,
        path=Path("a folder") / "head µ.nii.gz", notes=("one thing", "another"), parameters={"made": [1, 2.5]},
    )  # fmt: skip
    return dataclasses.replace(
        plain,
        domain=domain,
        source=Source(kind="pattern", direction=(0.3, 0, -1), width_axis=(1, 0, 0), pattern=RANDOM.random((3, 4))),
        settings=LightSettings(
            photons=20_000, seed=2**40, faces=("cyclic", "cyclic", "mirror", "escape", "fresnel", "default"),
            time_gates_ns=(0.0, 0.1 + 0.2, 5.0), halves=True, exit_map=True,
        ),
        detectors=(Detector(position_mm=(1, 2, 3), normal=(0, 0, 1), name="D1"), Detector(position_mm=(4, 5, 6))),
        half_fluences=RANDOM.random((2, *shape, 2), np.float32),
        escaped_weight=RANDOM.random(shape, np.float32),
        energy=dataclasses.replace(plain.energy, roulette=Estimate(1e-300, float("nan"))),
        parameters={"device": "cpu", "seconds": 1.25, "gpu": None, "batches": [1, 2]},
        state=stopped_run().state,
    )  # fmt: skip


# -- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("make", [rich_result, lambda: sample_result((6, 5, 4))], ids=["rich", "plain"])
def test_everything_comes_back(tmp_path, make, compress):
    result = make()
    save_result(tmp_path / "r.npz", result, compress=compress)
    check_same(load_result(str(tmp_path / "r.npz")), result)
    assert [path.name for path in tmp_path.iterdir()] == ["r.npz"]


def test_a_loaded_result_can_be_used_in_everything(tmp_path):
    result = rich_result()
    save_result(tmp_path / "r.npz", result)
    found = load_result(tmp_path / "r.npz")
    check_same(found.relative_error, result.relative_error)
    check_same(found.absorbed_density, result.absorbed_density)
    check_same(found.diffuse_reflectance(), result.diffuse_reflectance())
    check_same(found.detected.mean_path_mm(), result.detected.mean_path_mm())
    check_same(number_rows(found, threshold=1e-3), number_rows(result, threshold=1e-3))
    found.state.sums += np.uint64(1)  # arrays can be written, as a resumed run does


def test_a_stopped_run_goes_on_from_its_file(tmp_path):
    """Photons that were done are not done again, and the end is that of a run that was never stopped."""
    stopped = stopped_run()
    assert 0 < stopped.launched < 4000
    save_result(tmp_path / "r.npz", stopped)
    found = load_result(tmp_path / "r.npz")
    check_same(found, dataclasses.replace(stopped, parameters=json.loads(json.dumps(stopped.parameters))))
    resumed = simulate(
        found.domain, found.source, found.settings, detectors=found.detectors, device="cpu", resume=found
    )
    whole = simulate(*REQUEST, detectors=DETECTORS, device="cpu")
    assert resumed.complete
    check_same(
        dataclasses.replace(resumed, parameters={}, state=None), dataclasses.replace(whole, parameters={}, state=None)
    )


def test_the_tallies_can_be_left_out(tmp_path):
    result = rich_result()
    save_result(tmp_path / "r.npz", result, resumable=False)
    check_same(load_result(tmp_path / "r.npz"), dataclasses.replace(result, state=None))


def test_a_compressed_file_is_smaller(tmp_path):
    result = sample_result()
    save_result(tmp_path / "a.npz", result)
    save_result(tmp_path / "b.npz", result, compress=True)
    sizes = [(tmp_path / name).stat().st_size for name in ("a.npz", "b.npz")]
    assert sizes[1] < 0.9 * sizes[0]


def test_numpy_opens_the_file(tmp_path):
    result = rich_result()
    save_result(tmp_path / "r.npz", result)
    with np.load(tmp_path / "r.npz") as file:
        np.testing.assert_array_equal(file["result/gates"], result.gates)
        told = json.loads(file["result.json"])
    assert (told["format"], told["settings"]["seed"]) == ("napari-gpubio light result", 2**40)
    assert told["energy"]["roulette"] == {"value": 1e-300, "error": None}


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "r.npz"
    save_result(path, sample_result((6, 5, 4), photons=1000))
    return path


def test_a_truncated_file_is_refused(saved):
    whole = saved.read_bytes()
    for length in range(1, len(whole), max(1, len(whole) // 60)):
        saved.write_bytes(whole[:length])
        with pytest.raises(InvalidInput, match=r"r\.npz cannot be read .*; it is incomplete, damaged"):
            load_result(saved)
    saved.write_bytes(b"")
    with pytest.raises(InvalidInput, match="is empty"):
        load_result(saved)


@pytest.mark.parametrize("compress", [False, True])
def test_a_changed_byte_never_goes_unnoticed_in_the_numbers(tmp_path, compress):
    """Zip keeps a checksum of every array; what a changed byte elsewhere does is refused or changes nothing."""
    result, path = sample_result((6, 5, 4), photons=1000), tmp_path / "r.npz"
    save_result(path, result, compress=compress)
    whole, refused = bytearray(path.read_bytes()), 0
    places = np.random.default_rng(3).integers(0, len(whole), 150)
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        try:
            check_same(load_result(path), result)
        except InvalidInput:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 2}, "has version 2 of its format and only version 1 can be read here; update napari-gpubio"),
        ({"format": "tractogram"}, "is not a result of light transport; give a file that save_result has written"),
        (
            {"settings": {"polarized": True}},
            r"r\.npz cannot be used: 'polarized' of its LightSettings is not known here",
        ),
        ({"settings": {"photons": -1}}, r"r\.npz cannot be used: photons is -1"),
        ({"source": {"direction": [0, 0, 0]}}, r"r\.npz cannot be used: the source's direction is \(0, 0, 0\)"),
        ({"domain": {"media": []}}, r"r\.npz cannot be used: no optical properties for label 1"),
        ({"launched": None, "energy": {"absorbed": 3}}, r"r\.npz cannot be read \(TypeError"),
    ],
)
def test_what_the_file_says_of_itself_is_checked(saved, changes, sentence):
    rewritten(saved, **changes)
    with pytest.raises(InvalidInput, match=sentence):
        load_result(saved)


@pytest.mark.parametrize("name", ["domain/labels", "result/gates", "result/fluence_error", "detected/weight"])
def test_a_file_that_lacks_an_array_is_refused(saved, name):
    rewritten(saved, leave_out=f"{name}.npy")
    with pytest.raises(InvalidInput, match=r"r\.npz cannot be (read|used)"):
        load_result(saved)


@pytest.mark.parametrize("name", ["source/pattern", "result/escaped_weight", "domain/mua_per_mm", "state/sums"])
def test_what_a_result_may_have_is_not_lost_without_a_word(tmp_path, name):
    """A zip whose table of contents is damaged may hide the arrays at its end."""
    save_result(tmp_path / "r.npz", rich_result())
    rewritten(tmp_path / "r.npz", leave_out=f"{name}.npy")
    with pytest.raises(InvalidInput, match=rf"r\.npz cannot be read \(LookupError: {name} is missing"):
        load_result(tmp_path / "r.npz")


def test_a_file_without_a_list_of_its_arrays_is_read(saved):
    """As it was written once."""
    rewritten(saved, arrays=[])
    check_same(load_result(saved), sample_result((6, 5, 4), photons=1000))


def test_files_of_other_kinds_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", gates=np.ones(3))
    with pytest.raises(InvalidInput, match=r"a\.npz is not a result of light transport"):
        load_result(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_text("hello")
    with pytest.raises(InvalidInput, match=r"b\.npz cannot be read \(BadZipFile"):
        load_result(tmp_path / "b.npz")
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        archive.writestr("result.json", "[1, 2")
    with pytest.raises(InvalidInput, match=r"c\.npz cannot be read"):
        load_result(tmp_path / "c.npz")
    with pytest.raises(InvalidInput, match="does not exist"):
        load_result(tmp_path / "d.npz")
    save_layered_result(tmp_path / "e.npz", run("cpu", VAN_DE_HULST, 10, radial_bins=2, depth_bins=2))
    with pytest.raises(InvalidInput, match=r"e\.npz is a result of light in layers, not a result of light transport"):
        load_result(tmp_path / "e.npz")


def test_objects_of_python_are_never_unpacked(saved):
    with zipfile.ZipFile(saved, "a") as archive, archive.open("result/extra.npy", "w") as stream:
        np.lib.format.write_array(stream, np.array([{}], object), allow_pickle=True)
    with pytest.raises(InvalidInput, match=r"r\.npz cannot be read .*pickle"):
        load_result(saved)


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(saved, monkeypatch):
    monkeypatch.setattr(archive, "free_memory_bytes", lambda _device: 1000)
    with pytest.raises(InvalidInput, match=r"r\.npz needs \d+ MB of memory and 0 MB are free"):
        load_result(saved)


# -- what is written --------------------------------------------------------------------------------------------------


def test_the_name_ends_in_npz(tmp_path):
    with pytest.raises(InvalidInput, match=r"r\.zip does not end in \.npz"):
        save_result(tmp_path / "r.zip", sample_result((4, 4, 4)))
    with pytest.raises(InvalidInput, match=r"folder .*none does not exist"):
        save_result(tmp_path / "none" / "r.npz", sample_result((4, 4, 4)))


@pytest.mark.skipif(sys.platform == "win32", reason="a process's files have no limit there")
@pytest.mark.parametrize("compress", [False, True])
def test_a_full_disk_leaves_the_old_result(saved, compress):
    before = saved.read_bytes()
    with full_disk(8192), pytest.raises(InvalidInput, match=r"r\.npz could not be written \(File too large\); free"):
        save_result(saved, sample_result(), compress=compress)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["r.npz"]


def test_a_folder_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    def refuse(*_args, **_keywords):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(InvalidInput, match=r"r\.npz could not be written \(Permission denied\)"):
        save_result(tmp_path / "r.npz", sample_result((4, 4, 4)))
