"""The verb ``light``: the numbers are those of the API, files are complete, and a run can be stopped and resumed."""

import csv
import dataclasses
import json
import signal
import zlib

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import command_runs
from napari_gpubio.core.report import Exit
from napari_gpubio.core.tensor_components import FRAMES, PLACES, axes_of, rotate_tensors
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.light.guide import diffusion_guide
from napari_gpubio.light.io import load_result, read_diffusion_tensors, read_irradiance
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.spectrum import spectrum, spectrum_media
from napari_gpubio.optics import batches
from napari_gpubio.optics.anisotropy import FiberCalibration, with_fibers
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.io import write_table
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.numbers import NumberRow, table_lines
from napari_gpubio.optics.sources import Fiber, Pencil, emitting_volume
from napari_gpubio.optics.tissue import media_at_wavelengths
from tests.killed_runs import killed
from tests.light.result_samples import layered_domain
from tests.light.shell import light
from tests.light.voxel_samples import check_same_bits
from tests.shell import run_verb

HEAD = layered_domain((8, 9, 10), 2.0)  # of `head_files`
QUICK = ("--device", "cpu", "--photons", "2000", "--batches", "4")
PLACE = ("--position-mm", "0", "0", "1", "--direction", "0", "0", "-1")
AT_PLACE = ("head.nii.gz", "--media", "head.csv", *PLACE)


def run_head(*arguments):
    return light("head.nii.gz", "--media", "head.csv", *QUICK, *arguments)


# -- what it does -----------------------------------------------------------------------------------------------------


def test_it_does_what_the_api_does(head_files, capsys):
    status = run_head(
        *PLACE, "--source", "fiber", "--radius-mm", "0.3", "--detector", "4", "0", "0", "2.5", "--seed", "7",
        "--time-gates-ns", "0", "0.1", "3", "--no-specular", "--outside-n", "1.2", "--faces", *["mirror"] * 4,
        "escape", "default", "--out", "f.nii.gz", "--gates", "--run-out", "r.npz", "--numbers-out", "n.csv",
    )  # fmt: skip
    assert status == 0
    domain = Domain(labels=HEAD.labels, affine=HEAD.affine, media=HEAD.media, outside_n=1.2)
    expected = simulate(
        domain,
        Fiber(radius_mm=0.3, position_mm=(0, 0, 1), direction=(0, 0, -1)),
        LightSettings(
            photons=2000, batches=4, seed=7, specular=False, time_gates_ns=(0, 0.1, 3),
            faces=(*["mirror"] * 4, "escape", "default"),
        ),
        detectors=[Detector(position_mm=(4, 0, 0), radius_mm=2.5, name="D1")],
        device="cpu",
    )  # fmt: skip
    image = nib.load("f.nii.gz")
    np.testing.assert_array_equal(np.asarray(image.dataobj), expected.gates)
    np.testing.assert_allclose(image.affine, HEAD.affine, atol=1e-5)
    found = load_result("r.npz")
    assert (found.energy, found.absorbed) == (expected.energy, expected.absorbed)
    np.testing.assert_array_equal(found.detected.photon, expected.detected.photon)
    assert len(expected.detected) > 10
    assert json.loads((head_files / "f.json").read_text())["settings"]["seed"] == 7
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-2:] == ["r.npz", "n.csv"]
    assert all((head_files / line).exists() for line in printed.out.splitlines() if line.startswith("f"))
    assert "ok: Energy balance closed" in printed.err
    (scalp,) = [line for line in printed.out.splitlines() if line.startswith("  scalp")][:1]
    assert float(scalp.split()[1]) == pytest.approx(expected.absorbed[1].value, rel=0.05)
    assert "Detector D1" in printed.out


def test_cavities_can_be_filled_with_air(head_files, capsys):
    labels = HEAD.labels.copy()
    labels[3:5, 4, 4] = 0
    write_volume("hollow.nii.gz", labels, HEAD.affine)
    arguments = ("hollow.nii.gz", "--media", "head.csv", *QUICK, *PLACE)
    light(*arguments)
    assert "Tissue encloses 16 mm³ of label 0" in capsys.readouterr().err
    light(*arguments, "--air-in-cavities", "--run-out", "r.npz")
    assert "encloses" not in capsys.readouterr().err
    found = load_result("r.npz").domain
    assert found.medium(int(found.labels[3, 4, 4])).name == "air"


@pytest.mark.parametrize(("order", "model"), [("mrtrix", "product"), ("fsl", "free"), ("dipy", "product")])
def test_scattering_follows_the_fibers_of_a_tensor_image(head_files, capsys, order, model):
    world = np.array([1.7e-3, 0.9e-3, 0.3e-3, 0.2e-3, 0.1e-3, -0.1e-3], np.float32)
    own = rotate_tensors(world, axes_of(FRAMES[order], HEAD.affine).T)[np.argsort(PLACES[order])]
    write_volume("dti.nii.gz", np.broadcast_to(own, (*HEAD.shape, 6)), HEAD.affine)
    run_verb(
        "fibers-in-tissue", "head.nii.gz", "--media", "head.csv", "--tensors", "dti.nii.gz", "--order", order,
        "--labels", "2", "--model", model, "--full-fa", "0.6", "--record", "tissue.json",
    )  # fmt: skip
    light("tissue.json", *QUICK, *PLACE, "--run-out", "r.npz")
    assert ("not reciprocal" in capsys.readouterr().err) == (model == "free")
    tensors = np.broadcast_to(world, (*HEAD.shape, 6))
    calibration = FiberCalibration(full_fa=0.6)
    expected = with_fibers(HEAD, tensors, HEAD.affine, labels=[2], calibration=calibration, model=model)
    found = load_result("r.npz").domain
    np.testing.assert_allclose(found.mus_tensor_per_mm, expected.mus_tensor_per_mm, rtol=1e-4, atol=1e-4)
    assert found.scattering_model == model


def test_tensor_images_that_do_not_fit_are_refused(head_files):
    write_volume("dti.nii.gz", np.ones((*HEAD.shape, 6), np.float32), HEAD.affine)
    words = ("fibers-in-tissue", "head.nii.gz", "--media", "head.csv", "--tensors", "dti.nii.gz", "--record", "t.json")
    run_verb(*words, "--order", "full")
    with pytest.raises(InvalidInput, match="6 components, which the order 'full' does not"):
        light("t.json", *QUICK, *PLACE)
    for arguments, message in (({"order": "xyz"}, "'xyz'; choose"), ({"order": "fsl", "axes": "me"}, "axes is 'me'")):
        with pytest.raises(InvalidInput, match=message):
            read_diffusion_tensors("dti.nii.gz", **arguments)


def test_halves_come_with_the_guide_of_a_denoiser(head_files):
    run_head(*PLACE, "--halves", "--out", "f.nii.gz")
    halves = LightSettings(photons=2000, batches=4, halves=True)
    expected = diffusion_guide(HEAD, Pencil(position_mm=(0, 0, 1), direction=(0, 0, -1)), halves, device="cpu")
    np.testing.assert_array_equal(np.asarray(nib.load("f_guide.nii.gz").dataobj), expected)


def test_light_goes_straight_in_if_no_direction_is_given(head_files):
    run_head("--position-mm", "0", "0", "0.1", "--run-out", "r.npz")
    np.testing.assert_allclose(load_result("r.npz").source.direction, (0, 0, -1), atol=1e-6)


def test_a_source_that_emits_everywhere_needs_no_direction(head_files):
    assert run_head("--position-mm", "0", "0", "-5", "--source", "isotropic") == 0


def test_a_source_far_away_is_reported(head_files, capsys):
    run_head("--position-mm", "0", "0", "40", "--direction", "0", "0", "-1")
    assert "warning: The source is 40 mm away from the tissue" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({16: (9_000).to_bytes(4) + (9_000).to_bytes(4)}, r"p\.png has \d+ bytes and unpacks to 648000000"),
        ({0: b"GIF?"}, r"p\.png cannot be read as an image"),
        ({45: b"\xff" * 9}, r"p\.png cannot be read as an image"),
    ],
)
def test_damaged_images_are_refused(tmp_path, changes, sentence):
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(tmp_path / "p.png")
    data = bytearray((tmp_path / "p.png").read_bytes())
    for at, new in changes.items():
        data[at : at + len(new)] = new
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    (tmp_path / "p.png").write_bytes(data)
    with pytest.raises(InvalidInput, match=sentence):
        read_irradiance(tmp_path / "p.png")


def test_an_image_is_a_pattern(head_files):
    gray = np.array([[0, 100, 200], [50, 25, 255]], np.uint8)
    Image.fromarray(gray).save(head_files / "p.png")
    size = ("--width-mm", "6", "--height-mm", "4", "--width-axis", "0", "1", "0")
    run_head(*PLACE, "--source", "pattern", "--pattern", "p.png", *size, "--run-out", "r.npz")
    source = load_result("r.npz").source
    np.testing.assert_array_equal(source.pattern, gray)
    assert (source.width_mm, source.height_mm, source.width_axis) == (6, 4, (0, 1, 0))


def test_fluence_by_power_and_above_a_threshold(head_files, capsys):
    run_head(*PLACE, "--out", "one.nii", "--numbers-out", "n.csv")
    run_head(*PLACE, "--out", "two.nii", "--power-mw", "20", "--threshold", "0.5")
    one, two = (np.asarray(nib.load(name).dataobj) for name in ("one.nii", "two.nii"))
    np.testing.assert_allclose(two, 20 * one, rtol=1e-6)
    printed = capsys.readouterr().out
    assert "Volume above 0.5 mW/mm²" in printed
    volume = 8.0 * np.count_nonzero((two >= 0.5) & (HEAD.labels == 1))
    above = printed.split("Volume above 0.5 mW/mm²")[1].splitlines()[1]
    assert above.split() == ["scalp", f"{volume:g}", "mm³"]
    run_head(*PLACE, "--out", "three.nii", "--energy-j", "3")
    np.testing.assert_allclose(np.asarray(nib.load("three.nii").dataobj), 300 * one, rtol=1e-6)


def test_coefficients_may_come_from_volumes(head_files):
    mua = np.where(HEAD.labels == 1, 0.5, 0.01).astype(np.float32)
    write_volume("mua.nii.gz", mua, HEAD.affine)
    run_head(*PLACE, "--mua", "mua.nii.gz", "--run-out", "r.npz")
    np.testing.assert_array_equal(load_result("r.npz").domain.mua_per_mm, mua)
    write_volume("n.nii.gz", np.where(HEAD.labels == 1, 1.5, 1.3).astype(np.float32), HEAD.affine)
    run_head(*PLACE, "--n", "n.nii.gz", "--g", "mua.nii.gz", "--detector-face=+k", "--run-out", "r.npz", "--force")
    found = load_result("r.npz")
    assert set(np.unique(found.domain.n[HEAD.labels > 0])) <= {np.float32(1.3), np.float32(1.5)}
    np.testing.assert_array_equal(found.domain.g, mua)
    assert [detector.face for detector in found.detectors] == ["+k"]


# -- stop and resume --------------------------------------------------------------------------------------------------


def test_photons_are_added_to_a_run(head_files, capsys):
    run_head(*PLACE, "--run-out", "half.npz", "--seed", "3")
    more = ("--photons", "5000", "--device", "cpu", "--out", "more.npz")
    assert run_verb("add-photons", "half.npz", *more) == 0
    run_head(*PLACE, "--run-out", "whole.npz", "--seed", "3", "--photons", "5000")
    np.testing.assert_allclose(load_result("more.npz").fluence, load_result("whole.npz").fluence, rtol=1e-6)
    capsys.readouterr()
    assert run_verb("fluence", "half.npz", "--device", "cpu") == 0  # its numbers are printed
    assert "2,000" in capsys.readouterr().out


def test_an_interrupt_keeps_what_was_done(head_files, monkeypatch, capsys):
    def interrupt(step):
        if step.done and signal.getsignal(signal.SIGINT) is not usual:  # the second one would end the tests
            signal.raise_signal(signal.SIGINT)

    usual = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(command_runs, "draw_progress", interrupt)
    photons = ("--photons", str(10**9))
    assert run_head(*PLACE, *photons, "--run-out", "r.npz", "--out", "f.nii.gz") == Exit.STOPPED
    assert signal.getsignal(signal.SIGINT) is usual
    found, printed = load_result("r.npz"), capsys.readouterr()
    assert 0 < found.launched < 10**9
    assert not found.complete
    assert "stopping; what was done is kept" in printed.err
    assert f"{found.launched:,}" in printed.out
    np.testing.assert_array_equal(np.asarray(nib.load("f.nii.gz").dataobj), found.fluence)


def test_a_killed_run_goes_on_with_what_was_kept(head_files, monkeypatch, capsys, in_chunks_of):
    in_chunks_of(90)
    monkeypatch.setattr(batches, "PREVIEW_SECONDS", 0.0)
    with killed(monkeypatch, command_runs, after=8):
        run_head(*PLACE, "--run-out", "r.npz")
    part = load_result("r.npz")
    assert 0 < part.launched < 2000
    monkeypatch.setattr(command_runs, "draw_progress", lambda step: steps.append(step.done))
    steps = []
    assert run_head(*PLACE, "--run-out", "r.npz", "--out", "f.nii.gz") == 0
    assert steps[0] == part.launched
    assert "goes on with r.npz" in capsys.readouterr().err
    run_head(*PLACE, "--run-out", "whole.npz")
    check_same_bits(load_result("r.npz"), load_result("whole.npz"))
    with pytest.raises(InvalidInput, match=r"there is already r\.npz"):  # it is complete
        run_head(*PLACE, "--run-out", "r.npz")


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (("--seed", "5"), "other seed: 1, and this run has 5"),
        (
            ("--position-mm", "0", "0", "2"),
            r"other source 1 position_mm: \(0.0, 0.0, 1.0\), and this run has \(0.0, 0.0, 2.0\)",
        ),
        (("other.nii.gz",), r"other labels: .*head\.nii\.gz, and this run has .*other\.nii\.gz"),
        (("--media", "other.csv"), "other media 1 mua_per_mm: .*, and this run has 0.5"),
        (("--detector", "4", "0", "0", "3"), "other detector 1.*: none, and this run has"),
    ],
)
def test_a_killed_run_goes_on_with_its_own_inputs_only(head_files, monkeypatch, in_chunks_of, other, sentence):
    in_chunks_of(90)
    monkeypatch.setattr(batches, "PREVIEW_SECONDS", 0.0)
    with killed(monkeypatch, command_runs, after=6):
        run_head(*PLACE, "--run-out", "r.npz")
    write_volume("other.nii.gz", HEAD.labels[..., ::-1], HEAD.affine)
    write_table("other.csv", (dataclasses.replace(HEAD.media[0], mua_per_mm=0.5), *HEAD.media[1:]))
    labels, *more = other if other[0] == "other.nii.gz" else ("head.nii.gz", *other)
    given = {"--media": ("head.csv",), "--position-mm": PLACE[1:4]}
    words = [word for name, values in given.items() if name not in more for word in (name, *values)]
    before = (head_files / "r.npz").read_bytes()
    for force in ((), ("--force",)):
        with pytest.raises(InvalidInput, match=sentence):
            light(labels, *words, *more, *PLACE[4:], *QUICK, "--run-out", "r.npz", *force)
    assert (head_files / "r.npz").read_bytes() == before


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["head.nii.gz", *PLACE], r"head\.nii\.gz has no optical properties; give a table \(--media\)"),
        (["none.nii.gz", "--media", "head.csv", *PLACE], r"none\.nii\.gz does not exist"),
        (["head.nii.gz", "--media", "none.csv", *PLACE], r"none\.csv does not exist"),
        (["head.nii.gz", "--media", "short.csv", *PLACE], r"head\.nii\.gz: no optical properties for label 2, 3"),
        (["head.csv", "--media", "head.csv", *PLACE], r"head\.csv is a table, and labels are needed"),
        ([*AT_PLACE, "--out", "f.mha"], r"f\.mha, which does not end in \.nii"),
        ([*AT_PLACE, "--run-out", "r.npy"], r"r\.npy, which does not end in \.npz"),
        ([*AT_PLACE, "--numbers-out", "n.txt"], r"n\.txt, which does not end in \.csv"),
        ([*AT_PLACE, "--out", "no/f.nii"], "the folder no does not exist"),
        ([*AT_PLACE, "--power-mw", "1", "--energy-j", "1"], "both power_mw and energy_j are given"),
        ([*AT_PLACE, "--power-mw", "-1"], "it must be greater than 0"),
        ([*AT_PLACE, "--threshold", "nan"], "threshold is nan"),
        ([*AT_PLACE, "--photons", "0"], "photons is 0; it must be at least 1"),
        ([*AT_PLACE, "--faces", *["soft"] * 6], "faces is"),
        ([*AT_PLACE, "--source", "pattern"], "a pattern's image and a source of the kind pattern belong together"),
        (
            [*AT_PLACE, "--source", "pattern", "--pattern", "head.csv"],
            r"head\.csv cannot be read as an image",
        ),
        (["head.nii.gz", "--media", "head.csv", "--media", "head.csv", *PLACE], "there are several tables"),
    ],
)
def test_bad_input_gives_a_sentence_and_writes_nothing(head_files, arguments, sentence):
    write_table("short.csv", HEAD.media[:1])
    before = sorted(head_files.iterdir())
    with pytest.raises(InvalidInput, match=sentence):
        light("--device", "cpu", *arguments)
    assert sorted(head_files.iterdir()) == before


def test_a_file_that_cannot_be_written_does_not_keep_the_others_from_it(head_files, monkeypatch, capsys):
    def fail(*_args, **_keywords):
        raise InvalidInput("r.npz could not be written (No space left on device)")

    monkeypatch.setattr("napari_gpubio.light.operations.runs.save_result_steps", fail)
    with pytest.raises(InvalidInput, match="No space left"):
        run_head(*PLACE, "--run-out", "r.npz", "--out", "f.nii.gz")
    assert nib.load("f.nii.gz").shape == HEAD.shape
    assert "f.nii.gz" in capsys.readouterr().out.splitlines()


# -- its options ------------------------------------------------------------------------------------------------------


def test_the_table_has_a_heading_for_each_group():
    rows = [
        NumberRow(group="Energy", name="Photons", value=2000.0),
        NumberRow(group="Energy", name="Escaped", value=0.25, error=0.01, note="much"),
        NumberRow(group="Fluence", name="scalp", value=0.5, unit="1/mm²"),
    ]
    assert list(table_lines(rows)) == [
        "Energy",
        "  Photons  2,000",
        "  Escaped  0.250 ± 0.010  (much)",
        "Fluence",
        "  scalp    0.5 1/mm²",
    ]


# -- many wavelengths, and volumes that emit --------------------------------------------------------------------------

PRESETS = ("--presets", "1", "scalp (Strangman 2003)")
SPECTRUM = ("--wavelengths-nm", "690", "830", "35")
DETECTOR = ("--detector", "4", "0", "0", "2.5")


def presets_of_the_head():
    """A preset for each label of the head."""
    labels = HEAD.labels_present
    return [word for label in labels for word in ("--presets", str(label), "scalp (Strangman 2003)")]


def test_a_spectrum_is_that_of_the_api(head_files, capsys):
    presets = presets_of_the_head()
    assert light("head.nii.gz", *SPECTRUM, *presets, *PLACE, *DETECTOR, *QUICK, "--run-out", "r.npz") == 0
    assert run_verb("spectrum", "r.npz", *SPECTRUM, *presets, "--out", "s.csv") == 0
    with (head_files / "s.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["wavelength_nm"]) for row in rows] == [690, 725, 760, 795, 830]
    by_wavelength = media_at_wavelengths(
        dict.fromkeys(HEAD.labels_present, "scalp (Strangman 2003)"), range(690, 831, 35)
    )
    result = load_result("r.npz")
    assert result.domain.media == spectrum_media(by_wavelength)
    expected = spectrum(result, by_wavelength, keep_scattering=True)
    assert [float(row["detected_weight"]) for row in rows] == expected.weight.value[0].tolist()
    assert "Scattering is that of the run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("head.nii.gz", *PLACE, *PRESETS), "presets and wavelengths belong together"),
        (("head.nii.gz", *PLACE, *SPECTRUM), "presets and wavelengths belong together"),
        ((*AT_PLACE, *SPECTRUM, *PRESETS), "has two kinds of optical properties"),
        (("head.nii.gz", *PLACE, *SPECTRUM, *PRESETS, "--mua", "head.nii.gz"), "mua gives absorption voxel"),
        (("head.nii.gz", *PLACE, *SPECTRUM, "--presets", "skin", "1"), "of the label 'skin'; give the number"),
        (("head.nii.gz", *PLACE, *PRESETS, *PRESETS, *SPECTRUM), "two presets of label 1"),
        (("head.nii.gz", *PLACE, *PRESETS, "--wavelengths-nm", "690", "0", "5"), "give the first, the last and the"),
    ],
)
def test_wavelengths_that_lack_something_are_refused(head_files, arguments, words):
    with pytest.raises(InvalidInput, match=words):
        light(*arguments, *QUICK)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*AT_PLACE, "--emission", "head.nii.gz"), "emission says where light starts; leave the source out"),
        ((*AT_PLACE, "--radius-mm", "5"), "--radius-mm is an option of fiber, .*, which is not chosen"),
        ((*AT_PLACE, "--source", "fiber", "--width-axis", "1", "0", "0"), "--width-axis is an option of disk"),
        ((*AT_PLACE, "--pattern", "head.nii.gz"), "a pattern's image and a source of the kind pattern belong"),
        ((*AT_PLACE, "--out", "head.nii.gz"), "are the same file"),
        ((*AT_PLACE, "--detector-face", "up"), "'up'"),
        ((*AT_PLACE, "--detector", "0", "0", "x", "1"), "a detector is '0 0 x 1'; give its center and radius"),
        ((*AT_PLACE, "--affine", "1 0 0"), "the affine is '1 0 0'; give 16 numbers"),
    ],
)
def test_options_that_would_do_nothing_or_replace_a_file_are_refused(head_files, arguments, words):
    with pytest.raises(InvalidInput, match=words):
        light(*arguments, "--device", "cpu")


@pytest.mark.daily
def test_what_can_be_written_is_written(head_files, monkeypatch):
    def fail(path, *_, **__):
        raise InvalidInput(f"{path.name} could not be written (No space left on device)")

    monkeypatch.setattr("napari_gpubio.light.operations.fluence.write_fluence_steps", fail)
    with pytest.raises(InvalidInput, match=r"f\.nii\.gz"):
        run_head(*PLACE, *DETECTOR, "--out", "f.nii.gz", "--run-out", "r.npz")
    assert (head_files / "r.npz").is_file()


def test_a_volume_emits_where_it_lies(head_files):
    emission = np.zeros(HEAD.shape, np.float32)
    emission[3:5, 4, 5] = 1.0, 3.0
    write_volume(head_files / "dye.nii.gz", emission, HEAD.affine)
    assert run_head("--emission", "dye.nii.gz", "--run-out", "r.npz") == 0
    expected = simulate(
        HEAD, emitting_volume(emission, HEAD.affine), LightSettings(photons=2000, batches=4), device="cpu"
    )
    np.testing.assert_allclose(load_result("r.npz").fluence, expected.fluence, rtol=1e-3, atol=1e-6)
