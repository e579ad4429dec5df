"""Real data from a mirror on this computer: fetched once, checked, and removed where it is not what it should be."""

import dataclasses
import functools
import hashlib
import http.server
import threading
import zipfile

import numpy as np
import pytest

from napari_gpubio.cli import main
from napari_gpubio.core import real_samples
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.real_samples import MIRROR, SAMPLES, fetch, layer_steps
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import write_volume


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A folder that a server on this computer hands out, and an empty cache."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=functools.partial(server.serve_forever, 0.02), daemon=True)
        thread.start()
        monkeypatch.setenv(MIRROR, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(real_samples, "user_cache", lambda: tmp_path / "cache")
        yield folder
        server.shutdown()
        thread.join(5)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.endswith("half.bin"):  # more is promised than comes
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            return
        super().do_GET()


def sample(folder, name="colin27"):
    """A sample of the files that a mirror has."""
    files = tuple(
        (one.name, f"sha256:{hashlib.sha256(one.read_bytes()).hexdigest()}") for one in sorted(folder.iterdir())
    )
    return dataclasses.replace(SAMPLES[name], files=files)


def left(tmp_path):
    return [one.name for one in (tmp_path / "cache").rglob("*") if one.is_file()]


def notes_of(layers):
    return layers[0][1]["metadata"][KEY][NOTES]


def test_a_head_of_masks_comes_with_its_license_and_is_fetched_once(mirror, tmp_path):
    with zipfile.ZipFile(mirror / "colin27_segmentation.zip", "w") as archive:
        for label, name in enumerate(("skin", "bone", "csf", "gray", "white")):
            mask = np.zeros((7, 6, 5), np.uint8)
            mask[label:] = 1
            write_volume(tmp_path / "mask.nii", mask, np.diag([2.0, 2, 2, 1]))
            archive.write(tmp_path / "mask.nii", f"colin27/mask_{name}.nii")
    wanted = sample(mirror)
    (layer,) = drive(layer_steps(wanted))
    assert layer[1]["metadata"][KEY]["structures"][1] == "scalp"
    assert sorted(np.unique(layer[0])) == [1, 2, 3, 4, 5]
    assert any("Louis Collins" in note for note in notes_of([layer]))
    (mirror / "colin27_segmentation.zip").unlink()
    assert fetch(wanted).is_dir()


def test_a_brain_has_scan_t1_and_named_labels(mirror):
    for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec"):
        (mirror / name.replace("val", "vals").replace("vec", "vecs")).write_bytes(
            sample_path(f"brain_phantom/{name}").read_bytes()
        )
    labels = np.zeros((6, 6, 6), np.int16)
    labels[2:], labels[4:] = 1, 3
    write_volume(mirror / "aparc-reduced.nii.gz", labels, np.eye(4))
    write_volume(mirror / "t1.nii.gz", labels.astype(np.float32), np.eye(4))
    (mirror / "label_info.txt").write_text('1,2,"Left white"\n3,4,"Left gray"\n', encoding="utf-8")
    layers = drive(layer_steps(sample(mirror, "stanford-hardi")))
    assert [kind for _, _, kind in layers] == ["image", "image", "image", "labels"]
    assert layers[-1][1]["metadata"][KEY]["structures"] == {1: "Left white", 3: "Left gray"}
    assert "PDDL" in notes_of(layers)[-1]


def test_a_wrong_checksum_and_half_a_download_are_named_and_removed(mirror, tmp_path):
    (mirror / "a.bin").write_bytes(b"one")
    wanted = sample(mirror)
    (mirror / "a.bin").write_bytes(b"another")
    with pytest.raises(InvalidInput, match=r"a\.bin has another checksum"):
        fetch(wanted)
    with pytest.raises(InvalidInput, match=r"half\.bin could not be fetched"):
        fetch(dataclasses.replace(wanted, files=(("half.bin", wanted.files[0][1]),)))
    assert left(tmp_path) == []


def test_without_a_network_there_is_a_phantom_that_says_so(mirror, monkeypatch):
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:9")
    layers = drive(layer_steps(SAMPLES["colin27"]))
    assert "phantom in place of" in notes_of(layers)[0]


def test_stop_ends_a_download_and_leaves_nothing(mirror, tmp_path):
    (mirror / "a.bin").write_bytes(bytes(1 << 20))
    stop = threading.Event()
    stop.set()
    assert fetch(sample(mirror), stop=stop) is None
    assert left(tmp_path) == []


def test_the_verb_lists_licenses_and_fetches(mirror, tmp_path, monkeypatch, capsys):
    assert main(["sample"]) == 0
    assert "PDDL" in capsys.readouterr().out
    (mirror / "a.bin").write_bytes(b"one")
    monkeypatch.setitem(SAMPLES, "colin27", sample(mirror))
    assert main(["sample", "colin27"]) == 0
    printed = capsys.readouterr()
    assert "a.bin" in printed.out
    assert "Louis Collins" in printed.err
