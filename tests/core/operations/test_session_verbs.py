"""``napari-gpubio run | compare | show`` of records and sessions."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.core.operations import OpenVolume, State, Store, files_of, save_session, show, write_record
from napari_gpubio.core.volumes import read_volume, write_volume
from tests.core.operations.toys import Smooth, Trace


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch):
    monkeypatch.setattr(cli, "OF_ENGINES", {})


@pytest.fixture
def image(tmp_path):
    write_volume(tmp_path / "t1.nii.gz", np.arange(60, dtype=np.float32).reshape(3, 4, 5), np.eye(4))
    return OpenVolume.at(tmp_path / "t1.nii.gz")


@pytest.fixture
def session(tmp_path, image):
    store, smooth = Store(), Smooth(image=image, radius=2)
    shown = [
        show(one, name, device="cpu", store=store) for one, name in ((image, "t1"), (smooth, "a/b"), (smooth, "A_b"))
    ]
    shown.append(show(Trace(field=smooth.output("rest")), "path", device="cpu", store=store))
    path = tmp_path / "s.zip"
    save_session(path, State(tuple(shown), (("panel", Smooth(image=image)),)), store)
    return path


def call(*arguments):
    return cli.main([*map(str, arguments)])


def test_a_record_is_shown_and_run(tmp_path, image, capsys):
    record, out = tmp_path / "r.json", tmp_path / "out"
    write_record(record, Smooth(image=image, radius=2))
    assert call("show", record) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"  1  open-volume  file {image.file.path}",
        "  2  toy-smooth  image 1, radius 2",
        "toy-smooth smooth: smooth of 2",
        "toy-smooth rest: rest of 2",
    ]
    assert call("run", record, "--out", out, "--device", "cpu") == 0
    smooth, rest = (read_volume(out / f"toy-smooth {name}.nii.gz")[0] for name in ("smooth", "rest"))
    np.testing.assert_allclose(smooth + rest, np.arange(60.0).reshape(3, 4, 5), rtol=1e-6)
    assert call("run", record, "--out", out, "--device", "cpu") == 2
    assert "there is already" in capsys.readouterr().err
    assert call("compare", record) == 2
    assert f"(compare {record.name} other.json)" in capsys.readouterr().err


def test_a_session_is_run_to_files_of_their_own_and_compared(tmp_path, session, capsys):
    assert call("run", session, "--out", tmp_path / "out", "--device", "cpu") == 0
    assert sorted(one.name for one in (tmp_path / "out").glob("*.gz")) == ["A_b 2.nii.gz", "a_b.nii.gz", "t1.nii.gz"]
    assert call("compare", session, "--device", "cpu", "--json") == 0
    printed = json.loads(capsys.readouterr().out.split("\n", 3)[-1])
    assert printed["same"] == {"t1": True, "a/b": True, "A_b": True, "path": True}
    assert call("show", session) == 0
    printed = capsys.readouterr().out
    assert "path: path of 3 on cpu" in printed
    assert "panel: draft 4" in printed


def test_what_differs_is_said(tmp_path, image, session, capsys, monkeypatch):
    monkeypatch.setattr(Smooth, "steps", _other_steps)
    assert call("compare", session, "--device", "cpu") == 1
    printed = capsys.readouterr().out
    assert "t1: same" in printed
    assert "a/b: differs (" in printed
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    write_record(first, Trace(field=Smooth(image=image)))
    write_record(second, Trace(field=Smooth(image=image, radius=3), count=7))
    assert call("compare", first, second) == 1
    assert capsys.readouterr().out.splitlines() == ["field.radius: 1 -> 3", "count: 5 -> 7"]
    assert call("compare", first, first) == 0


_steps = Smooth.steps


def _other_steps(self, data, **run):
    found = yield from _steps(self, data, **run)
    return dataclasses.replace(found, smooth=found.smooth.like(found.smooth.array + 1))


def test_missing_files_are_named(tmp_path, session, capsys):
    (tmp_path / "t1.nii.gz").unlink()
    assert call("show", session) == 0
    assert "t1.nii.gz: it is not there" in capsys.readouterr().err
    assert call("run", session, "--out", tmp_path / "out") == 2
    assert "t1.nii.gz does not exist" in capsys.readouterr().err


def test_files_elsewhere_need_leave(tmp_path, image, capsys):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    store = Store()
    save_session(folder / "s.zip", State((show(image, "t1", device="cpu", store=store),)), store)
    assert call("show", folder / "s.zip") == 0
    assert "outside the session's folder" in capsys.readouterr().err
    assert call("run", folder / "s.zip", "--out", tmp_path / "out", "--allow", tmp_path, "--device", "cpu") == 0
    shutil.rmtree(tmp_path / "out")
    save_session(folder / "e.zip", State((show(image, "t1", device="cpu", store=store),)), store, embed=files_of(image))
    (tmp_path / "t1.nii.gz").unlink()
    assert call("run", folder / "e.zip", "--out", tmp_path / "out", "--device", "cpu") == 0


def test_a_session_and_a_folder_are_reported(tmp_path, session, capsys):
    page = tmp_path / "page.html"
    assert call("report", session, "--out", page, "--device", "cpu") == 0
    text = page.read_text(encoding="utf-8")
    for name in ("t1", "a/b", "A_b", "path", "How it was made"):
        assert f"<h2>{name}</h2>" in text
    assert call("report", session, "--out", page) == 2
    assert "there is already" in capsys.readouterr().err
    assert call("report", tmp_path, "--out", page, "--force") == 0  # beside the image that it is of
    assert "<h2>t1.nii.gz</h2>" in page.read_text(encoding="utf-8")
