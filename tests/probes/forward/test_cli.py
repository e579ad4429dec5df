"""The verb ``napari-gpubio forward``: from files to files, and its refusals."""

import json
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.cli import main
from napari_gpubio.core import operations
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import State, Store, command_runs, open_session, save_session
from napari_gpubio.core.operations.files import output_of_record, read_record
from napari_gpubio.core.operations.graphs import files_of
from napari_gpubio.core.report import Exit
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.optics.io.table import write_table
from napari_gpubio.optics.sources import Fiber
from napari_gpubio.probes.forward import work
from napari_gpubio.probes.forward.operations import OpenProbe
from napari_gpubio.probes.forward.settings import DiffuseOptode, FiberOptode, PencilOptode
from napari_gpubio.probes.kernels.pairs import cpu
from tests.killed_runs import killed
from tests.probes.forward.samples import block, medium, probe

OPTODES = "name\ttype\tx\ty\tz\n"


@pytest.fixture
def folder(tmp_path):
    """A head, tables of its tissues, and a probe as BIDS has it."""
    head, given = block(), probe()
    write_volume(tmp_path / "head.nii.gz", head.labels, head.affine)
    for nm, mua in ((760, 0.02), (850, 0.03)):
        write_table(tmp_path / f"head{nm}.csv", (medium(mua, 1, "scalp"), medium(mua, 2, "gray matter")))
    rows = [
        f"{name}\t{kind}\t" + "\t".join(f"{value:g}" for value in place)
        for kind, names, places in (
            ("source", given.sources, given.source_positions_mm),
            ("detector", given.detectors, given.detector_positions_mm),
        )
        for name, place in zip(names, places, strict=True)
    ]
    (tmp_path / "sub-1_optodes.tsv").write_text(OPTODES + "\n".join(rows) + "\n")
    (tmp_path / "sub-1_coordsystem.json").write_text('{"NIRSCoordinateUnits": "mm"}')
    return tmp_path


def run(folder, *options):
    media = [word for nm in (760, 850) for word in ("--media", str(nm), str(folder / f"head{nm}.csv"))]
    files = str(folder / "sub-1_optodes.tsv"), "--head", str(folder / "head.nii.gz")
    few = ("--photons", "1600", "--groups", "4", "--device", "cpu")
    return main(["forward", *files, *(() if "--head-table" in options else media), *few, *options])


def test_fibers_have_a_radius_for_each_end(folder, capsys):
    """Where both ends have one, its option begins with the end; that of another kind of optode is refused."""
    options = (
        "--record",
        str(folder / "model.json"),
        "--wavelengths-nm",
        "760",
        "--sources",
        "fiber",
        "--sources-radius-mm",
        "0.3",
    )
    assert run(folder, *options, "--detectors-radius-mm", "1") == 2
    assert "--detectors-radius-mm is an option of fiber, which is not chosen" in capsys.readouterr().err
    assert run(folder, *options) == 0
    read = read_record(folder / "model.json").settings
    assert (read.sources, read.detectors) == (FiberOptode(radius_mm=0.3), DiffuseOptode())


@pytest.mark.parametrize(
    ("optode", "radius", "aperture"),
    [(FiberOptode(radius_mm=0.4, numerical_aperture=0.3), 0.4, 0.3), (DiffuseOptode(), 0.01, 1.0)],
)
def test_optodes_that_touch_are_fibers_or_like_them(optode, radius, aperture):
    expected = Fiber(
        position_mm=(1, 2, 3), direction=(0, 0, -1), entry="smooth", radius_mm=radius, numerical_aperture=aperture
    )
    assert optode.source((1.0, 2.0, 3.0), (0.0, 0.0, -1.0)) == expected
    assert optode.touches
    assert not PencilOptode.touches
    assert optode.core_mm == (radius if isinstance(optode, FiberOptode) else 0.0)


@pytest.mark.daily
def test_files_become_a_model(folder, capsys):
    out = folder / "model.npz"
    assert run(folder, "--wavelengths-nm", "760", "850", "--labels", "gray matter", "--out", str(out)) == 0
    printed = capsys.readouterr()
    assert "S1D1" in printed.out
    assert "850 nm: mean path, mm: scalp, gray matter" in printed.out
    assert "note: " in printed.err
    with np.load(out) as found:
        made = output_of_record(json.loads(str(found["about"]))["record"])
        assert found["channels"].tolist() == ["S1_D1", "S1_D2", "S2_D1", "S2_D2"]
        assert found["wavelengths_nm"].tolist() == [760, 850]
    assert (made.of.labels, made.of.settings.wavelengths_nm) == (("gray matter",), (760, 850))
    assert [Path(one.path).name for one in made.of.probe.of.beside] == ["sub-1_coordsystem.json"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "model.mat"), "does not end in .nc or .npz"),
        (("--out", "model.npz"), "no wavelengths; give wavelengths_nm (--wavelengths-nm)"),
        (("--out", "model.npz", "--wavelengths-nm", "700"), "not at 700 nm"),
        (("--out", "model.npz", "--wavelengths-nm", "760", "--labels", "CSF"), "there is no label 'CSF'"),
        (("--out", "nowhere/model.npz", "--wavelengths-nm", "760"), "does not exist"),
        (
            ("--out", "model.npz", "--wavelengths-nm", "760", "--landmarks", "Nz", "0", "0", "x"),
            "a name and three numbers",
        ),
        (
            ("--out", "model.npz", "--wavelengths-nm", "760", "--landmarks", "Nz", "0", "0", "1"),
            "three with the same names",
        ),
        (("--out", "model.npz", "--wavelengths-nm", "760", "--presets", "1", "skull"), "one of head-table, presets"),
        (("--out", "model.npz", "--wavelengths-nm", "850", "--head-table", "Strangman 2003"), "not at 850 nm"),
        (
            ("--out", "model.npz", "--wavelengths-nm", "760", "--media", "760", "head850.csv"),
            "one occurs twice among 760 nm",
        ),
        (("--out", "model.npz", "--wavelengths-nm", "760", "--media", "red", "head850.csv"), "'red'"),
        (("--out", "model.npz", "--wavelengths-nm", "760", "--scale"), "scale is of the landmarks"),
        (("--out", "model.npz", "--wavelengths-nm", "760", "--mask", "turned.nii.gz"), "resample it"),
        (("--out", "model.npz", "--wavelengths-nm", "760", "--atlas", "turned.nii.gz"), "resample it"),
        (("--out", "model.npz", "--wavelengths-nm", "760", "--farthest-mm", "nan"), "farthest_mm is nan"),
    ],
)
def test_what_does_not_fit_is_refused(folder, capsys, monkeypatch, options, message):
    monkeypatch.chdir(folder)
    write_volume(folder / "turned.nii.gz", block().labels, np.diag([-1.0, 1.0, 1.0, 1.0]))
    assert run(folder, *options) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "model.npz").exists()


def test_a_probe_far_off_can_be_projected(folder, capsys):
    shift = folder / "shift.txt"
    np.savetxt(shift, np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, -30.0], [0, 0, 0, 1]]))
    options = ("--wavelengths-nm", "760", "--affine", str(shift), "--out", str(folder / "model.npz"))
    assert run(folder, *options) == 2
    error = capsys.readouterr().err
    assert "S1 by 30.0 mm" in error
    assert "--project" in error
    assert run(folder, *options, "--project") == 0
    assert "projected onto it" in capsys.readouterr().err


def arrays(path):
    """All numbers of a model; facts on its run are left out."""
    with np.load(path) as found:
        return {name: found[name] for name in found.files if name != "about"}


WAVELENGTHS = ("--wavelengths-nm", "760", "850")


@pytest.fixture
def slow_chunks(monkeypatch, in_chunks_of):
    """Each optode takes many chunks and looks, so that a run is seen in the middle of it."""
    in_chunks_of(150)
    monkeypatch.setattr(work, "_POLL_SECONDS", 0.005)
    monkeypatch.setattr(work, "_NOTE_SECONDS", 0.0)
    usual = cpu.Run.open_path

    def open_path(self):
        time.sleep(0.02)
        return usual(self)

    monkeypatch.setattr(cpu.Run, "open_path", open_path)


@pytest.mark.parametrize("whole_wavelengths", [0, 1])
def test_a_killed_run_goes_on_with_what_was_kept(folder, capsys, monkeypatch, slow_chunks, whole_wavelengths):
    whole, out = folder / "whole.npz", folder / "model.npz"

    def is_in_an_optode():
        kept = arrays(out) if out.exists() else {"state_whole": -1}
        return kept["state_whole"] == whole_wavelengths and any(name.startswith("state_path") for name in kept)

    with killed(monkeypatch, command_runs, when=is_in_an_optode):
        run(folder, *WAVELENGTHS, "--out", str(out))
    assert run(folder, *WAVELENGTHS, "--out", str(out)) == 0
    assert "goes on with model.npz" in capsys.readouterr().err
    assert run(folder, *WAVELENGTHS, "--out", str(whole)) == 0
    found, expected = arrays(out), arrays(whole)
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_a_killed_run_goes_on_with_its_own_inputs_only(folder, capsys, monkeypatch):
    with killed(monkeypatch, command_runs, after=5):  # the first ones read
        run(folder, *WAVELENGTHS, "--out", str(folder / "model.npz"))
    kept = (folder / "model.npz").read_bytes()
    write_volume(folder / "roll.nii.gz", np.roll(block().labels, 1, axis=2), block().affine)
    (folder / "head.nii.gz").rename(folder / "mine.nii.gz")
    (folder / "roll.nii.gz").rename(folder / "head.nii.gz")
    for more, sentence in (
        ((*WAVELENGTHS, "--project"), "begun with other labels: "),
        (("--wavelengths-nm", "760", "--project"), "begun with other "),
    ):
        assert run(folder, *more, "--out", str(folder / "model.npz")) == 2
        assert sentence in capsys.readouterr().err
    assert (folder / "model.npz").read_bytes() == kept
    (folder / "mine.nii.gz").rename(folder / "head.nii.gz")
    assert run(folder, *WAVELENGTHS, "--out", str(folder / "model.npz")) == 0
    assert "goes on with model.npz" in capsys.readouterr().err


def test_a_damaged_unfinished_model_is_refused(folder, capsys, monkeypatch, slow_chunks):
    out = folder / "model.npz"
    with killed(monkeypatch, command_runs, when=lambda: out.exists() and any("path_1" in name for name in arrays(out))):
        run(folder, *WAVELENGTHS, "--out", str(out))
    good = {**arrays(out), "about": np.load(out)["about"]}
    optode = "state_fluence_0"  # which is whole
    for changes in (
        {optode: good[optode][:, 1:]},
        {optode.replace("fluence", "photons"): np.array(3)},
        {"state_photons_77": np.array(3)},
        {"state_whole": np.array(2)},
        {"about": np.array("{}")},
    ):
        np.savez(out, **(good | changes))
        assert run(folder, *WAVELENGTHS, "--out", str(out)) == 2
        printed = capsys.readouterr().err
        assert "model.npz is no unfinished model" in printed or "the file is damaged" in printed


def test_what_a_stopped_run_has_done_is_kept_beside_the_netcdf_file(folder, capsys, monkeypatch):
    pytest.importorskip("h5py")
    steps = []

    def interrupt_once(step):
        steps.append(step)
        if len(steps) == 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command_runs, "draw_progress", interrupt_once)
    assert run(folder, "--wavelengths-nm", "760", "--out", str(folder / "model.nc")) == Exit.STOPPED
    assert "model_unfinished.npz" in capsys.readouterr().out
    assert not (folder / "model.nc").exists()
    with np.load(folder / "model_unfinished.npz") as found:
        assert not found["done_760"].all()
    assert run(folder, "--wavelengths-nm", "760", "--out", str(folder / "model.nc")) == 0
    assert (folder / "model.nc").exists()
    assert not (folder / "model_unfinished.npz").exists()


def test_an_embedded_probe_keeps_the_files_beside_it(folder, tmp_path):
    """Without them its positions would be taken as mm; a copy of the table has others beside it."""
    drafts, scales = {}, {"cm": 10.0, "mm": 1.0}
    for unit in scales:
        home = tmp_path / unit
        home.mkdir()
        shutil.copy(folder / "sub-1_optodes.tsv", home)
        (home / "sub-1_coordsystem.json").write_text(json.dumps({"NIRSCoordinateUnits": unit}))
        drafts[unit] = OpenProbe.at(home / "sub-1_optodes.tsv")
    save_session(tmp_path / "s.zip", State(drafts=tuple(drafts.items())), embed=files_of(*drafts.values()))
    (tmp_path / "other").mkdir()
    moved = (tmp_path / "s.zip").rename(tmp_path / "other" / "s.zip")
    (tmp_path / "mm" / "sub-1_coordsystem.json").unlink()
    with pytest.raises(InvalidInput, match=r"not in the record|does not exist"):
        operations.run(drafts["mm"], store=Store())
    shutil.rmtree(tmp_path / "cm")
    opened = open_session(moved, Store())
    assert not opened.missing
    for unit, draft in opened.state.drafts:
        found = operations.run(draft, store=Store())
        np.testing.assert_allclose(found.source_positions_mm, scales[unit] * np.array(probe().source_positions_mm))
