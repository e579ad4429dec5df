"""Result files of voxels and of layers: all comes back to the last bit, runs go on from them, damage is refused."""

import dataclasses
import functools
import io
import json
import math
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio import layered as layers
from napari_gpubio.core import volumes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.layered.beams import FlatBeam, convolved
from napari_gpubio.layered.io import results as layered_results
from napari_gpubio.layered.io.mco import read_mco, write_mco
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.io import load_result, save_result, save_result_steps
from napari_gpubio.light.readers import get_reader
from napari_gpubio.light.run import simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector, FaceDetector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.io import archive
from napari_gpubio.optics.io.archive import VOXELS, write_archive_steps
from napari_gpubio.optics.model import Layer
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources import Pattern, Pencil
from tests import runs
from tests.fuzzing import CHANGES, changed_values, fuzzed, refusal
from tests.layered.samples import check_same_bits
from tests.light.result_files import check_same, rewritten
from tests.light.result_samples import layered_domain, sample_result

RANDOM = np.random.default_rng(7)
REQUEST = (
    layered_domain((6, 5, 8)),
    Pencil(position_mm=(0, 0, 1), direction=(0, 0, -1)),
    LightSettings(photons=4000, batches=4, time_gates_ns=(0.0, 0.1, 5.0), exit_map=True, halves=True),
)
DETECTORS = [Detector(position_mm=(1, 0, 0), radius_mm=1.5)]
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
SETTINGS = LayeredSettings(photons=2000, batches=4, seed=2**63, absorption="drop", **GRID)


@functools.cache
def stopped_run():
    """The result of a run that was stopped in the middle of a batch."""
    stop = threading.Event()
    return runs.stopped(simulate_steps(*REQUEST, detectors=DETECTORS, device="cpu", stop=stop), stop, 1)


@functools.cache
def rich_result():
    """A result with everything that one can have, in the rarest form."""
    plain = sample_result((6, 5, 4), (0.0, 0.5, 5.0), photons=20_000, complete=False)
    shape = plain.domain.shape
    domain = dataclasses.replace(
        plain.domain, mua_per_mm=RANDOM.random(shape), mus_per_mm=RANDOM.random(shape), outside_n=1.33,
        n=1 + RANDOM.random(shape), phase_function=TabulatedPhaseFunction(cosines=[-1.0, 0.1 + 0.2, 1.0]),
        path=Path("a folder") / "head µ.nii.gz", notes=("one thing", "another"), parameters={"made": [1, 2.5]},
    )  # fmt: skip
    return dataclasses.replace(
        plain,
        domain=domain,
        source=Pattern(direction=(0.3, 0, -1), width_axis=(1, 0, 0), pattern=RANDOM.random((3, 4))),
        settings=LightSettings(
            photons=20_000, seed=2**40, faces=("cyclic", "cyclic", "mirror", "escape", "fresnel", "default"),
            time_gates_ns=(0.0, 0.1 + 0.2, 5.0), halves=True, exit_map=True,
        ),
        detectors=(
            Detector(position_mm=(1, 2, 3), normal=(0, 0, 1), name="D1"), FaceDetector(face="+j", name="behind"),
            Detector(position_mm=(4, 5, 6)),
        ),
        half_fluences=RANDOM.random((2, *shape, 2), np.float32),
        escaped_weight=RANDOM.random(shape, np.float32),
        guide=RANDOM.random(shape, np.float32),
        energy=dataclasses.replace(plain.energy, roulette=Estimate(1e-300, float("nan"))),
        parameters={"device": "cpu", "seconds": 1.25, "gpu": None, "batches": [1, 2]},
        state=stopped_run().state,
    )  # fmt: skip


@functools.cache
def layered(**changes):
    return layers.simulate(MEDIUM, dataclasses.replace(SETTINGS, **changes), device="cpu")


def as_read(result):
    """A result as a file gives it back: its parameters went through JSON."""
    return dataclasses.replace(result, parameters=json.loads(json.dumps(result.parameters)))


class Verb(NamedTuple):
    """How the results of one engine are saved and loaded, a small one, and one with everything."""

    save: Callable[..., None]
    load: Callable[..., Any]
    small: Callable[[], Any]
    rich: Callable[[], Any]
    title: str


VERBS = {
    "voxels": Verb(
        save_result, load_result, lambda: sample_result((6, 5, 4), photons=1000), rich_result, "light transport"
    ),
    "layers": Verb(layered_results.save_result, layered_results.load_result, layered, layered, "light in layers"),
}


@pytest.fixture(params=VERBS)
def verb(request):
    return VERBS[request.param]


@pytest.fixture
def saved(verb, tmp_path):
    verb.save(tmp_path / "r.npz", verb.small())
    return tmp_path / "r.npz"


# -- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("voxels", rich_result),
        ("voxels", lambda: sample_result((6, 5, 4))),
        ("layers", layered),
        ("layers", lambda: layered(absorption="off")),
        ("layers", lambda: convolved(layered(), FlatBeam(radius_mm=0.7))),
    ],
    ids=["rich", "plain", "layers", "no map", "beam"],
)
def test_everything_comes_back(tmp_path, name, make, compress):
    verb, result = VERBS[name], make()
    verb.save(tmp_path / "r.npz", result, compress=compress)
    found = verb.load(str(tmp_path / "r.npz"))
    check_same(found, as_read(result))
    if make is rich_result:
        found.state.sums += np.uint64(1)  # arrays can be written, as a resumed run does
    assert [path.name for path in tmp_path.iterdir()] == ["r.npz"]
    with zipfile.ZipFile(tmp_path / "r.npz") as file:
        methods = {member.compress_type for member in file.infolist()}
    assert methods == {zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED}


@pytest.mark.parametrize(
    ("compress", "packed"), [(False, []), (None, ["zeros"]), (True, ["zeros", "steps", "few"])], ids=str
)
def test_arrays_are_compressed_where_that_pays(tmp_path, compress, packed):
    size, random = 1 << 18, np.random.default_rng(0)
    arrays = {
        "zeros": np.where(np.arange(size) < size // 50, random.random(size), 0.0),
        "steps": random.integers(0, 256, size).astype(np.uint16),  # half of it
        "noise": random.random(size),
        "few": np.zeros(10),
    }
    drive(write_archive_steps(tmp_path / "r.npz", VOXELS, {}, arrays.items(), compress=compress))
    with zipfile.ZipFile(tmp_path / "r.npz") as file:
        members = {member.filename.removesuffix(".npy"): member.compress_type for member in file.infolist()}
    assert [name for name in arrays if members[name] == zipfile.ZIP_DEFLATED] == packed
    with np.load(tmp_path / "r.npz") as found:
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)


ORDERS = {
    "C": lambda: np.arange(6000.0).reshape(10, 20, 30),
    "Fortran": lambda: np.asfortranarray(np.arange(6000.0).reshape(10, 20, 30)),
    "neither": lambda: np.moveaxis(np.arange(6000, dtype=np.uint16).reshape(10, 20, 30), 0, -1)[::2],
    "one number": lambda: np.array(5),
    "nothing": lambda: np.zeros((0, 3)),
    "text": lambda: np.array("key"),
}


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_blocks_are_what_numpy_writes(tmp_path, monkeypatch, order, compress):
    monkeypatch.setattr(archive, "_BLOCK", 1000)
    array, expected = ORDERS[order](), io.BytesIO()
    np.lib.format.write_array(expected, array, allow_pickle=False)
    steps = []
    drive(write_archive_steps(tmp_path / "r.npz", VOXELS, {}, [("a", array)], compress=compress), steps.append)
    with zipfile.ZipFile(tmp_path / "r.npz") as file:
        assert file.read("a.npy") == expected.getvalue()
    assert max(0, array.nbytes // 1000 - 2) <= len(steps) < max(1, -(-array.nbytes // 1000))  # some blocks are shorter
    assert all(step.message == "MB of r.npz saved" for step in steps)


def test_a_result_that_is_no_longer_saved_leaves_the_old_file(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_BLOCK", 1000)
    save_result(tmp_path / "r.npz", sample_result((6, 5, 4)))
    before = (tmp_path / "r.npz").read_bytes()
    saving = save_result_steps(tmp_path / "r.npz", sample_result((6, 5, 4)))
    next(saving)
    saving.close()
    assert [path.name for path in tmp_path.iterdir()] == ["r.npz"]
    assert (tmp_path / "r.npz").read_bytes() == before


def test_the_tallies_can_be_left_out(verb, tmp_path):
    verb.save(tmp_path / "r.npz", verb.rich(), resumable=False)
    check_same(verb.load(tmp_path / "r.npz"), as_read(dataclasses.replace(verb.rich(), state=None)))


def test_what_came_from_mcml_comes_back(tmp_path):
    """Without errors (NaN), and without tallies."""
    write_mco(tmp_path / "r.mco", layered())
    result = read_mco(tmp_path / "r.mco")
    assert (math.isnan(result.absorbed.error), result.state) == (True, None)
    layered_results.save_result(tmp_path / "r.npz", result)
    check_same(layered_results.load_result(tmp_path / "r.npz"), as_read(result))


def test_a_stopped_run_in_layers_goes_on_from_its_file(tmp_path, in_chunks_of):
    in_chunks_of(90)
    stop = threading.Event()
    part = runs.stopped(layers.simulate_steps(MEDIUM, SETTINGS, device="cpu", stop=stop), stop, 8)
    assert 0 < part.launched < 2000
    assert part.launched % part.state.batch_size
    layered_results.save_result(tmp_path / "r.npz", part)
    found = layered_results.load_result(tmp_path / "r.npz")
    check_same(found, as_read(part))
    check_same_bits(layers.simulate(found.medium, found.settings, device="cpu", resume=found), layered())


def test_numpy_opens_the_file_and_its_text_is_strict_json(tmp_path):
    def text_of(save, result, name, expected):
        save(tmp_path / "r.npz", result)
        with np.load(tmp_path / "r.npz") as file:
            np.testing.assert_array_equal(file[name], expected)
            return json.loads(file["result.json"], parse_constant=lambda constant: pytest.fail(f"{constant}: no JSON"))

    about = text_of(save_result, rich_result(), "result/gates", rich_result().gates)
    assert (about["format"], about["settings"]["seed"]) == ("napari-gpubio light result", 2**40)
    assert about["energy"]["roulette"] == {"value": 1e-300, "error": None}
    about = text_of(layered_results.save_result, layered(), "result/A_rz", layered().A_rz.value)
    assert (about["format"], about["version"]) == ("napari-gpubio layered light result", 1)
    assert (about["settings"]["seed"], about["medium"]["n_below"]) == (2**63, 1.33)
    assert [row["thickness_mm"] for row in about["medium"]["layers"]] == [0.1 + 0.2, None]
    assert about["absorbed"] == layered().absorbed._asdict()
    assert about["parameters"]["device"] == layered().parameters["device"]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_truncated_file_is_refused(verb, saved):
    content = saved.read_bytes()
    for length in range(1, len(content), max(1, len(content) // 40)):
        saved.write_bytes(content[:length])
        with pytest.raises(InvalidInput, match=r"r\.npz cannot be read .*; it is incomplete, damaged"):
            verb.load(saved)
    saved.write_bytes(b"")
    with pytest.raises(InvalidInput, match="is empty"):
        verb.load(saved)


def check_changed_bytes(verb, path, examples, compress):
    """Changed bytes are refused or change no number: zip has a checksum of every array."""
    expected = as_read(verb.small())
    verb.save(path, verb.small(), compress=compress)
    content, refused = path.read_bytes(), []
    with zipfile.ZipFile(path) as file:
        heads = [member.header_offset for member in file.infolist()]
    where = st.one_of(
        st.integers(0, len(content) - 1),
        st.tuples(st.sampled_from(heads), st.integers(0, 200)).map(sum),  # names, and headers of arrays
        st.integers(max(0, len(content) - 3000), len(content) - 1),  # the table of contents
    )

    @fuzzed(examples)
    @given(st.lists(st.tuples(where, st.integers(1, 255)), min_size=1, max_size=3))
    def run(changes):
        data = bytearray(content)
        for at, bits in changes:
            data[min(at, len(data) - 1)] ^= bits
        refused.append(bool(refusal(lambda bad: check_same(verb.load(bad), expected), path, bytes(data))))
        get_reader(str(path))  # looks into the file, and raises nothing

    run()
    assert len(refused) // 2 < sum(refused) < len(refused)


def check_changed_text(verb, path, examples):
    """Values of the text of any other kind are refused or read; none is a bug's error."""
    verb.save(path, verb.rich())
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    text, refused = json.loads(members.pop("result.json")), []

    @fuzzed(examples)
    @given(CHANGES)
    def run(changes):
        with zipfile.ZipFile(path, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
            file.writestr("result.json", json.dumps(changed_values(text, changes)))
        refused.append(bool(refusal(verb.load, path, path.read_bytes())))

    run()
    assert len(refused) // 10 < sum(refused) < len(refused)


@pytest.mark.parametrize("compress", [False, True])
def test_changed_bytes_never_go_unnoticed_in_the_numbers(verb, tmp_path, compress):
    check_changed_bytes(verb, tmp_path / "r.npz", 100, compress)


def test_changed_text_is_refused_in_a_sentence(verb, tmp_path):
    check_changed_text(verb, tmp_path / "r.npz", 60)


@pytest.mark.long
def test_hundreds_of_damaged_files(verb, tmp_path):
    for compress in (False, True):
        check_changed_bytes(verb, tmp_path / "r.npz", 300, compress)
    check_changed_text(verb, tmp_path / "r.npz", 300)


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("voxels", {"version": 2}, "has version 2 of its format and only version 1 can be read here; update napari-"),
        (
            "voxels",
            {"format": "trx"},
            "is not a result of light transport; give a file that light.io.save_result has written",
        ),
        ("voxels", {"settings": {"polarized": True}}, "'polarized' of its LightSettings is not known"),
        ("voxels", {"settings": {"photons": -1}}, "photons is -1"),
        ("voxels", {"source": {"direction": [0, 0, 0]}}, r"the source's direction is \(0, 0, 0\)"),
        ("voxels", {"source": {"direction": "up"}}, "direction is 'up'; give a list"),
        ("voxels", {"domain": {"media": []}}, "no optical properties for label 1"),
        ("voxels", {"detectors": [{"name": "D1"}]}, "its Detector lacks 'position_mm'"),
        ("voxels", {"launched": None}, "its 'launched' is None"),
        ("voxels", {"absorbed": {"scalp": {"value": 0.1, "error": 0.0}}}, "its 'absorbed' has 'scalp'"),
        ("voxels", {"absorbed": {"9" * 5000: {"value": 0.1, "error": 0.0}}}, "its 'absorbed' has '9999"),
        ("voxels", {"energy": {"absorbed": 3}}, "its 'absorbed' is 3"),
        (
            "layers",
            {"format": "trx"},
            "is not a result of light in layers; give a file that layered.io.save_result has",
        ),
        ("layers", {"settings": 5}, "its LayeredSettings is 5"),
        ("layers", {"medium": {"layers": []}}, "there are 0 layers"),
        ("layers", {"medium": {"n_above": 1.2}}, "its tallies belong to other layers or settings"),
        ("layers", {"absorbed": 3}, "its 'absorbed' is 3"),
    ],
)
def test_the_text_of_a_file_is_checked(tmp_path, name, changes, sentence):
    verb, path = VERBS[name], tmp_path / "r.npz"
    verb.save(path, verb.small())
    rewritten(path, **changes)
    with pytest.raises(InvalidInput, match=rf"^r\.npz:? {sentence}"):
        verb.load(path)


def test_sizes_that_a_source_does_not_have_are_left_out(tmp_path):
    path = tmp_path / "r.npz"
    save_result(path, sample_result((6, 5, 4)))
    rewritten(path, source={"kind": "pencil", "radius_mm": 5.0, "columns": 9})
    found = load_result(path).source
    assert found == Pencil(position_mm=found.position_mm, direction=found.direction)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        *(("voxels", name) for name in ("domain/labels", "domain/mua_per_mm", "source/pattern", "detected/weight")),
        *(("voxels", name) for name in ("result/gates", "result/fluence_error", "result/escaped_weight", "state/sums")),
        *(("layers", name) for name in ("result/A_rz", "result/Rd_a_error", "state/key", "state/numbers_3")),
    ],
)
def test_a_file_that_lacks_an_array_is_refused(tmp_path, name, array):
    """Also one that a result need not have: a zip whose table of contents is damaged may hide those at its end."""
    verb, path = VERBS[name], tmp_path / "r.npz"
    verb.save(path, verb.rich())
    rewritten(path, leave_out=f"{array}.npy")
    with pytest.raises(InvalidInput, match=rf"r\.npz: it lacks {array}"):
        verb.load(path)


@pytest.mark.parametrize("name", ["gates", "gates_error", "fluence_error", "half_fluences", "escaped_weight"])
@pytest.mark.parametrize("other", [np.array(5), np.zeros((2, 3), np.float32), np.array([b"x"])])
def test_a_volume_of_another_shape_is_refused(tmp_path, name, other):
    path = tmp_path / "r.npz"
    save_result(path, rich_result())
    rewritten(path, leave_out=f"result/{name}.npy")
    with zipfile.ZipFile(path, "a") as file, file.open(f"result/{name}.npy", "w") as stream:
        np.lib.format.write_array(stream, other)
    with pytest.raises(InvalidInput, match=rf"^r\.npz: its '{name}' has shape"):
        load_result(path)


@pytest.mark.parametrize("other", [np.array(5), np.zeros((2, 3)), np.array([b"x"])])
def test_a_state_of_another_shape_is_refused(tmp_path, other):
    verb, path = VERBS["layers"], tmp_path / "r.npz"
    verb.save(path, verb.rich())
    rewritten(path, leave_out="state/done_3.npy")
    with zipfile.ZipFile(path, "a") as file, file.open("state/done_3.npy", "w") as stream:
        np.lib.format.write_array(stream, other)
    with pytest.raises(InvalidInput, match=r"^r\.npz: the saved state is damaged"):
        verb.load(path)


def test_a_file_without_a_list_of_its_arrays_is_read(tmp_path):
    """As it was written once."""
    save_result(tmp_path / "r.npz", rich_result())
    rewritten(tmp_path / "r.npz", arrays=[])
    check_same(load_result(tmp_path / "r.npz"), rich_result())
    rewritten(tmp_path / "r.npz", leave_out="result/gates.npy")
    with pytest.raises(InvalidInput, match=r"r\.npz: it lacks 'gates'"):
        load_result(tmp_path / "r.npz")


def test_files_of_other_kinds_are_refused(verb, tmp_path):
    other = next(one for one in VERBS.values() if one is not verb)
    other.save(tmp_path / "a.npz", other.small())
    np.savez(tmp_path / "b.npz", gates=np.ones(3))
    (tmp_path / "c.npz").write_text("hello")
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as file:
        file.writestr("result.json", "[1, 2")
    for name, sentence in {
        "a": f"a.npz is a result of {other.title}, not a result of {verb.title}",
        "b": f"b.npz is not a result of {verb.title}",
        "c": r"c.npz cannot be read \(BadZipFile",
        "d": r"d.npz is not valid JSON \(Expecting",
        "e": "does not exist",
    }.items():
        with pytest.raises(InvalidInput, match=sentence):
            verb.load(tmp_path / f"{name}.npz")


def test_objects_of_python_are_never_unpacked(verb, saved):
    with zipfile.ZipFile(saved, "a") as file, file.open("result/extra.npy", "w") as stream:
        np.lib.format.write_array(stream, np.array([{}], object), allow_pickle=True)
    with pytest.raises(InvalidInput, match=r"r\.npz cannot be read .*pickle"):
        verb.load(saved)


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(verb, saved, monkeypatch):
    monkeypatch.setattr(volumes, "free_memory_bytes", lambda _device: 1000)
    with pytest.raises(InvalidInput, match=r"r\.npz needs \d+ MB of memory and 0 MB are free"):
        verb.load(saved)
