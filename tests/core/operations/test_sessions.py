"""Sessions: everything comes back, on another machine too; hostile ones get a sentence."""

import dataclasses
import io
import json
import random
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from napari_gpubio.core import files as core_files
from napari_gpubio.core.archives import Archive
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import file_checksum, sample_path
from napari_gpubio.core.operations import (
    STORE,
    HeldVolume,
    OpenVolume,
    Shown,
    State,
    Store,
    Volume,
    files_of,
    open_session,
    rerun,
    run,
    save_session,
    script,
    show,
    stale,
)
from napari_gpubio.core.operations.files import read_record, write_record
from napari_gpubio.core.operations.records import File
from napari_gpubio.core.volumes import write_volume
from tests.core.operations.randoms import Records
from tests.core.operations.test_files import _mutant
from tests.core.operations.toys import Join, Smooth, Trace, Uphill

TOYS = (Smooth, Trace, Join)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "study"
    (folder / "raw").mkdir(parents=True)
    write_volume(folder / "raw" / "t1.nii.gz", np.arange(60, dtype=np.float32).reshape(3, 4, 5), np.eye(4))
    return folder


def some_state(folder, store):
    """Layers of a file, of painted labels, and of what is made of both."""
    labels = Volume(array=np.ones((3, 4, 5), np.uint8), affine=np.eye(4), name="labels")
    image, mask = OpenVolume.at(folder / "raw" / "t1.nii.gz"), HeldVolume.of(labels, store)
    smooth = Smooth(image=image, mask=mask)
    traced = Trace(field=smooth.output("rest"), method=Uphill(), count=9)
    shown = [
        show(one, name, device="cpu", store=store) for one, name in ((image, "t1"), (smooth, "s"), (traced, "path"))
    ]
    shown[1] = dataclasses.replace(
        shown[1], display=(("colormap", "viridis"), ("limits", (0.0, 1.5)), ("visible", False))
    )
    draft = dataclasses.replace(smooth, radius=3)
    return State(tuple(shown), (("toy-smooth", draft),), (("zoom", 2.5), ("center", (1.0, 2.0, 3.0))))


@pytest.mark.parametrize("name", ["session.zip", "session"])
def test_all_of_it_comes_back_and_runs_to_the_same_bits(folder, name):
    store = Store()
    state = some_state(folder, store)
    save_session(folder / name, state, store)
    fresh = Store()
    opened = open_session(folder / name, fresh)
    assert opened.state == state
    assert opened.missing == {}
    assert fresh.runs == 0
    STORE.adopt_arrays(fresh)
    again = [*rerun(opened.state, device="cpu")]
    assert [found for _, found in again] == [one.digest for one in state.shown]


@pytest.mark.parametrize("name", ["session.zip", "session"])
def test_it_moves_with_its_folder_and_says_what_is_missing(folder, tmp_path, name):
    store = Store()
    state = some_state(folder, store)
    save_session(folder / name, state, store)
    moved = tmp_path / "elsewhere"
    shutil.move(folder, moved)
    opened = open_session(moved / name, Store())
    assert opened.state == state
    assert not opened.missing
    assert [one.path for one in files_of(opened.state.shown[0].output.of)] == [str(moved / "raw" / "t1.nii.gz")]
    write_volume(moved / "raw" / "t1.nii.gz", np.zeros((3, 4, 5), np.float32), np.eye(4))
    assert "has changed" in open_session(moved / name, Store()).missing["raw/t1.nii.gz"]
    (moved / "raw" / "t1.nii.gz").unlink()
    opened = open_session(moved / name, Store())
    assert opened.state == state
    assert "is not there" in opened.missing["raw/t1.nii.gz"]


@pytest.mark.parametrize("name", ["session.zip", "session"])
def test_embedded_files_need_nothing_else(folder, tmp_path, name):
    store = Store()
    state = some_state(folder, store)
    save_session(folder / name, state, store, embed=files_of(state.shown[2].output.of))
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.move(folder / name, alone / name)
    shutil.rmtree(folder)
    opened = open_session(alone / name, Store())
    assert not opened.missing
    STORE.adopt_arrays(store)
    assert [found for _, found in rerun(opened.state, device="cpu")] == [one.digest for one in state.shown]


def test_files_elsewhere_are_asked_for(folder, tmp_path):
    store = Store()
    save_session(folder / "s.zip", some_state(folder, store), store)
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(folder / "s.zip", other / "s.zip")
    data = _data(other / "s.zip")
    _replace(data["graph"], "raw/t1.nii.gz", str(folder / "raw" / "t1.nii.gz"))
    _write(other / "s.zip", data, other / "s.zip")
    (path, why), *_ = open_session(other / "s.zip", Store()).missing.items()
    assert path == str(folder / "raw" / "t1.nii.gz")
    assert "outside the session's folder; allow it" in why
    assert not open_session(other / "s.zip", Store(), allow=[folder / "raw"]).missing
    assert not open_session(other / "s.zip", Store(), allow=[folder / "raw" / "t1.nii.gz"]).missing


@pytest.mark.parametrize(
    "place",
    [
        "/etc/hostname",
        "../../../../etc/hostname",
        "//host/share/a.nii",
        r"\\host\a.nii",
        "http://a/b",
        "raw/link.nii.gz",
    ],
)
def test_no_file_of_elsewhere_is_touched(folder, monkeypatch, place):
    store = Store()
    save_session(folder / "s.zip", some_state(folder, store), store)
    (folder / "raw" / "link.nii.gz").symlink_to("/etc/hostname")
    data = _data(folder / "s.zip")
    _replace(data["graph"], "raw/t1.nii.gz", place)
    _write(folder / "s.zip", data, folder / "s.zip")
    monkeypatch.setattr(
        "napari_gpubio.core.operations.sessions.file_checksum", lambda *_, **__: pytest.fail("it was read")
    )
    assert [*open_session(folder / "s.zip", Store()).missing] == [place]


def test_a_session_that_cannot_be_saved_leaves_the_old_one(folder, monkeypatch):
    store = Store()
    state = some_state(folder, store)
    save_session(folder / "s.zip", state, store)
    before = (folder / "s.zip").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("napari_gpubio.core.operations.sessions.write_array", full)
    with pytest.raises(InvalidInput, match="No space left"):
        save_session(folder / "s.zip", without(state, "s"), store)
    assert (folder / "s.zip").read_bytes() == before
    assert sorted(one.name for one in folder.iterdir()) == ["raw", "s.zip"]
    with pytest.raises(InvalidInput, match="no empty folder"):
        save_session(folder / "raw", state, store)


def test_a_file_that_changed_is_not_embedded(folder):
    store = Store()
    state = some_state(folder, store)
    write_volume(folder / "raw" / "t1.nii.gz", np.zeros((3, 4, 5), np.float32), np.eye(4))
    with pytest.raises(InvalidInput, match=r"t1.nii.gz has changed"):
        save_session(folder / "s.zip", state, store, embed=files_of(state.shown[0].output.of))


def _data(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("session.json"))


def _replace(value, old, new):
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if value[key] == old:
            value[key] = new
        _replace(value[key], old, new)


def _write(path, data, like, **more):
    """A session as ``like`` with other data and members."""
    with zipfile.ZipFile(like) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | more
    members["session.json"] = data if isinstance(data, bytes) else json.dumps(data).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: data.update(version=2), "version 2 and this program reads 1; update"),
        (lambda data: data.update(format="x"), "no session"),
        (lambda data: data.update(shown={}), "its layers are no list"),
        (lambda data: data["shown"].append({}), "one of its layers is {}"),
        (lambda data: data["shown"][0].update(operation="x"), "operation of its layer 't1' is not in it"),
        (lambda data: data["shown"][0].update(output="x"), "has no result 'x'"),
        (lambda data: data["shown"][0].update(complete="yes"), "which is damaged"),
        (lambda data: data["shown"][0]["display"].update(a={}), "its display.a is {}; it must be"),
        (lambda data: data["drafts"].update(p="x"), "draft of 'p' is not among"),
        (lambda data: data.update(view=[]), "its view is"),
        (lambda data: data["view"].update(a=[[[[[[1]]]]]]), "its view.a is"),
        (lambda data: data["graph"].update(version=9), "the record of operations has version 9"),
    ],
)
def test_damaged_sessions_get_a_sentence(folder, change, sentence):
    store = Store()
    save_session(folder / "s.zip", some_state(folder, store), store)
    data = _data(folder / "s.zip")
    change(data)
    _write(folder / "s.zip", data, folder / "s.zip")
    with pytest.raises(InvalidInput, match=f"^s.zip.*{sentence}"):
        open_session(folder / "s.zip", Store())


def test_hostile_archives_get_a_sentence(folder, tmp_path):
    store = Store()
    path = folder / "s.zip"
    save_session(path, some_state(folder, store), store)
    data, (array,) = _data(path), [name for name in zipfile.ZipFile(path).namelist() if name.startswith("arrays/")]
    other = io.BytesIO()
    np.save(other, np.zeros((3, 4, 5), np.uint8))
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], object), allow_pickle=True)
    for content, sentence in (
        (other.getvalue(), "is not what it was"),
        (pickled.getvalue(), "pickle"),
        (b"", "empty"),
        (b"x", "damaged"),
    ):
        _write(tmp_path / "a.zip", data, path, **{array: content})
        with pytest.raises(InvalidInput, match=sentence):
            open_session(tmp_path / "a.zip", Store())
    _write(tmp_path / "bomb.zip", b" " * (300 << 20), path)
    with pytest.raises(InvalidInput, match=r"bomb.zip"):
        open_session(tmp_path / "bomb.zip", Store())
    _write(
        tmp_path / "out.zip",
        data,
        path,
        **{"files/../../x": b"y", "arrays/../y": b"y", "/z": b"y", "files/a/..\\w": b"y"},
    )
    open_session(tmp_path / "out.zip", Store())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.zip", "bomb.zip", "out.zip", "study"]
    for name, content in (("text.zip", b"x"), ("none.zip", None), ("cut.zip", path.read_bytes()[:-50])):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=name):
            open_session(tmp_path / name, Store())


def test_nearly_empty_arrays_come_back_and_what_no_layer_needs_is_not_unpacked(folder, monkeypatch):
    monkeypatch.setattr("napari_gpubio.core.volumes._ALWAYS_UNPACKED_BYTES", 0)
    store, path, fresh = Store(), folder / "s.zip", Store()
    empty = HeldVolume.of(Volume(array=np.zeros((64, 128, 128), np.uint8), affine=np.eye(4)), store)
    save_session(path, State((Shown(Smooth(image=empty).output(), "empty", "cpu", "0" * 32),)), store)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"arrays/{'f' * 32}.npy", bytes(1 << 20))
    unpacked = []
    real = Archive.unpack
    monkeypatch.setattr(Archive, "unpack", lambda self, name, to: (unpacked.append(name), real(self, name, to)))
    assert not open_session(path, fresh).missing
    assert not fresh.array(empty.array).any()
    assert unpacked == ["session.json", f"arrays/{empty.array.checksum}.npy"]
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(InvalidInput, match="the disk has 1 MB; make room"):
        open_session(path, Store())


def test_mutants_of_sessions_are_opened_or_refused(folder, tmp_path):
    store, chance = Store(), random.Random(2)
    save_session(folder / "s.zip", some_state(folder, store), store)
    data, outcomes = _data(folder / "s.zip"), {True: 0, False: 0}
    for _ in range(100):
        _write(folder / "m.zip", _mutant(data, chance), folder / "s.zip")
        try:
            open_session(folder / "m.zip", Store())
            outcomes[True] += 1
        except InvalidInput:
            outcomes[False] += 1
    assert min(outcomes.values()) > 5, outcomes


def test_random_sessions_come_back_and_run_to_the_same_bits(folder):
    for seed in range(8):
        store = Store()
        known = (HeldVolume, OpenVolume, *TOYS)
        records = Records(seed, store, [folder / "raw" / "t1.nii.gz"], known)
        shown = []
        while len(shown) < 5:
            operation = records.operation(records.random.choice(TOYS))
            try:
                shown.append(show(operation, f"layer {len(shown)}", device="cpu", store=store))
            except (InvalidInput, ValueError):  # a random mask of another shape
                continue
        state = State(tuple(shown))
        path = folder / f"{seed}.zip"
        save_session(path, state, store)
        fresh = Store()
        opened = open_session(path, fresh)
        assert opened.state == state
        STORE.adopt_arrays(fresh)
        assert [found for _, found in rerun(opened.state, device="cpu")] == [one.digest for one in shown]


def without(state, name):
    return dataclasses.replace(state, shown=tuple(one for one in state.shown if one.name != name))


def test_a_layer_is_stale_if_its_draft_has_changed(folder):
    state = some_state(folder, Store())
    assert stale(state.shown[1].output, dict(state.drafts)["toy-smooth"]) == ["Radius 1 instead of 3 voxels"]
    assert stale(state.shown[2].output, dict(state.drafts)["toy-smooth"]) == []


def test_a_file_that_may_not_be_read_keeps_its_place(tmp_path, folder):
    """In scripts and sessions that are saved again."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    scan = tmp_path / "elsewhere" / "scan.nii"
    write_volume(scan, np.ones((3, 3, 3), np.float32), np.eye(4))
    path = tmp_path / "here" / "s.zip"
    save_session(path, State((show(OpenVolume.at(scan), "scan", device="cpu"),)))
    for _ in range(2):
        opened = open_session(path, Store())
        assert [*opened.missing] == [str(scan)]
        output = opened.state.shown[0].output
        assert str(scan) in script(output)
        with pytest.raises(InvalidInput, match="scan"):
            run(output, device="cpu", store=Store())
        path = tmp_path / "here" / "again.zip"
        save_session(path, opened.state)


@pytest.mark.parametrize("name", ["s.zip", "s"])
def test_a_folder_is_opened_and_embedded_with_all_of_its_files(tmp_path, name):
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in range(3):
        (frames / f"{number}.tif").write_bytes(bytes([number]))
    operation = OpenVolume(file=File(str(frames), file_checksum(frames)))
    state = State(drafts=(("panel", operation),))
    save_session(tmp_path / name, state)
    assert not open_session(tmp_path / name, Store()).missing
    save_session(tmp_path / f"e{name}", state, embed=[operation.file])
    (tmp_path / "other").mkdir()
    moved = (tmp_path / f"e{name}").rename(tmp_path / "other" / name)
    for one in frames.iterdir():
        one.unlink()
    opened = open_session(moved, Store())
    assert not opened.missing
    found = dict(opened.state.drafts)["panel"].file
    assert sorted(one.name for one in Path(found.path).iterdir()) == ["0.tif", "1.tif", "2.tif"]


def test_samples_are_found_on_every_machine(tmp_path, monkeypatch):
    """They lie elsewhere there; what is named as one, and is none, is not read."""
    operation = OpenVolume.at(sample_path("head_phantom.nii.gz"))
    save_session(tmp_path / "s.zip", State(drafts=(("panel", operation),)))
    write_record(tmp_path / "r.json", operation)
    other = tmp_path / "elsewhere"
    shutil.copytree(sample_path("head_phantom.nii.gz").parent, other / "sample_data")
    monkeypatch.setattr(core_files, "_PACKAGE", other)
    opened = open_session(tmp_path / "s.zip", Store())
    assert not opened.missing
    for found in (read_record(tmp_path / "r.json"), dict(opened.state.drafts)["panel"]):
        assert found == operation
        assert Path(found.file.path) == other / "sample_data" / "head_phantom.nii.gz"
    data = _data(tmp_path / "s.zip")
    _replace(data["graph"], "sample: head_phantom.nii.gz", "sample: ../../secret.txt")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "session").mkdir()
    _write(tmp_path / "session" / "s.zip", data, tmp_path / "s.zip")
    assert "lies outside" in open_session(tmp_path / "session" / "s.zip", Store()).missing["sample: ../../secret.txt"]
