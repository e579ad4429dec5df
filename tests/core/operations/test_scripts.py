"""Copied scripts build the very record, and its result."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from napari_gpubio import fibers, optics
from napari_gpubio.core.operations import (
    HeldVolume,
    OpenVolume,
    Output,
    Store,
    Volume,
    digest,
    file,
    run,
    script,
    stores,
)
from napari_gpubio.core.operations.volumes import record_beside
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.operations import OpenTensors
from napari_gpubio.fibers.operations import Track
from napari_gpubio.fibers.seeds import AtPoints
from napari_gpubio.light.operations import OpenDomain, Simulate
from napari_gpubio.optics.model import Medium
from tests.core.operations.randoms import Records
from tests.core.operations.toys import Join, Smooth, Trace, Uphill, Weighted

TOYS = (Smooth, Trace, Join)


def _executed(text, monkeypatch):
    """What a script hands over to ``run``."""
    found = []
    monkeypatch.setattr("napari_gpubio.core.operations.run", lambda output, **_: found.append(output))
    exec(compile(text, "script", "exec"), {})
    return found[0].of if isinstance(found[0], Output) else found[0]


def test_random_scripts_build_equal_records(tmp_path, monkeypatch):
    path = tmp_path / "a'b\"c.txt"
    path.write_text("abc")
    store = Store()
    records = Records(5, store, [path])
    for n in range(99):
        output = records.operation(TOYS[n % 3]).output()
        text = script(output, folder=tmp_path, store=store)
        found = _executed(text, monkeypatch)
        assert found == output.of
    assert found.id == output.of.id


def test_a_script_reads_well(tmp_path):
    path = tmp_path / "t1.nii.gz"
    write_volume(path, np.ones((3, 4, 5), np.float32), np.eye(4))
    image = OpenVolume.at(path)
    smooth = Smooth(image=image, radius=2)
    traced = Trace(field=smooth.output("rest"), method=Uphill(neighbors=Weighted(power=0.1 + 0.2)))
    text = script(traced, device="cpu", names={smooth.id: "T1, 'smooth'\nimport os"})
    assert text.splitlines() == [
        "from napari_gpubio.core.operations import file, run",
        "from napari_gpubio.core.operations.volumes import OpenVolume",
        "from tests.core.operations.toys import Smooth, Trace, Uphill, Weighted",
        "",
        "t1 = OpenVolume(",
        f"    file=file({str(path)!r}, {image.file.checksum!r}),",
        ")",
        "t1_smooth_import_os = Smooth(image=t1, radius=2)",
        "toy_trace = Trace(",
        "    field=t1_smooth_import_os.output('rest'),",
        f"    method=Uphill(neighbors=Weighted(power={0.1 + 0.2!r})),",
        ")",
        "result = run(toy_trace, device='cpu')",
    ]


@pytest.mark.parametrize("name", ["class", "np", "run", "", "1", "ø", "file", "a\nb", "__import__('os')", "x" * 500])
def test_names_never_become_code(tmp_path, monkeypatch, name):
    store = Store()
    image = HeldVolume.of(Volume(array=np.zeros((2, 2, 2)), affine=np.eye(4), name=name or "x"), store)
    joined = Join(paths=(Trace(field=image), Trace(field=image, count=2)))
    text = script(joined, folder=tmp_path, store=store, names={one.of.id: name for one in joined.paths})
    assert _executed(text, monkeypatch) == joined


def test_a_fresh_process_makes_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store()
    array = np.random.default_rng(0).random((4, 5, 6))
    traced = Trace(
        field=HeldVolume.of(Volume(array=array, affine=np.eye(4)), store), method=Uphill(), start_mm=(0.1, 0, 0)
    )
    text = script(traced, device="cpu", folder=tmp_path, store=store)
    text += "from napari_gpubio.core.operations import digest\nprint(digest(result))\n"
    (tmp_path / "script.py").write_text(text)
    root = [one for one in sys.path if one.endswith("main")]
    done = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(dict.fromkeys([*root, *filter(None, sys.path)])), "PATH": ""},
    )
    assert done.stdout.strip() == digest(run(traced, store=store, device="cpu"))


def test_a_changed_file_is_refused_by_the_script(tmp_path, monkeypatch):
    path = tmp_path / "t1.nii.gz"
    write_volume(path, np.ones((3, 4, 5), np.float32), np.eye(4))
    text = script(Smooth(image=OpenVolume.at(path)))
    write_volume(path, np.zeros((3, 4, 5), np.float32), np.eye(4))
    with pytest.raises(stores.InvalidInput, match="has changed"):
        _executed(text, monkeypatch)


def test_a_script_that_saves(tmp_path, monkeypatch):
    path, out = tmp_path / "t1.nii.gz", tmp_path / "out.nii.gz"
    write_volume(path, np.ones((3, 4, 5), np.float32), np.eye(4))
    exec(script(Smooth(image=OpenVolume.at(path)), device="cpu", save={"smooth": str(out)}), {})
    assert out.is_file()
    assert dataclasses.is_dataclass(OpenVolume.at(out))


def test_a_script_that_saves_results_of_several_operations(tmp_path, monkeypatch):
    path, out, rest = tmp_path / "t1.nii.gz", tmp_path / "out.nii.gz", tmp_path / "rest.nii.gz"
    write_volume(path, np.ones((3, 4, 5), np.float32), np.eye(4))
    one, other = (Smooth(image=OpenVolume.at(path), radius=radius) for radius in (1, 2))
    exec(script(one, device="cpu", save={"smooth": str(out), other.output("rest"): str(rest)}), {})
    assert record_beside(out)["output"] == "smooth"
    assert other.id in record_beside(rest)["operations"]


def test_classes_of_one_name_are_told_apart(tmp_path, monkeypatch):
    labels = tmp_path / "labels.nii"
    write_volume(labels, np.ones((3, 4, 5), np.uint8), np.eye(4))
    tissue = OpenDomain(file=file(labels), media=(Medium(label=1),), affine=np.eye(4))
    lit = Simulate(tissue=tissue, sources=(optics.Cone(position_mm=(1.0, 1.0, 1.0)),))
    tracked = Track(field=OpenTensors.at(labels), seeds=AtPoints(seed=((0.0, 1.0, 2.0),)), directions=fibers.Cone())
    built = []
    run_name = "napari_gpubio.core.operations.run"
    monkeypatch.setattr(run_name, lambda one, **_: built.append(one.of if isinstance(one, Output) else one))
    exec(compile(script(lit.output(), tracked.output(), folder=tmp_path), "script", "exec"), {})
    assert built == [lit, tracked]
