"""The command line's verb ``speckle``."""

import argparse

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, baseline_k2, contrast, measure_dark
from napari_gpubio.speckle.cli import add_verb

tifffile = pytest.importorskip("tifffile", reason="tifffile is not installed: it comes with napari")
FRAMES = np.random.default_rng(0).integers(100, 4096, (6, 20, 24), np.uint16)


@pytest.fixture
def stack(tmp_path):
    path = tmp_path / "frames.tif"
    tifffile.imwrite(path, FRAMES, photometric="minisblack")
    return path


def call(*arguments):
    parser = argparse.ArgumentParser()
    add_verb(parser.add_subparsers(required=True))
    options = parser.parse_args(["speckle", *map(str, arguments), "--device", "cpu"])
    return options.run(options)


def test_from_file_to_files(tmp_path, stack, capsys):
    outputs = [tmp_path / f"{name}.tif" for name in ("k", "sfi", "mask")]
    options = ["--window", 3, "--exposure-ms", 4, "--edges", "reflect"]
    assert call(stack, "--contrast", outputs[0], "--index-out", outputs[1], "--mask-out", outputs[2], *options) == 0
    expected = contrast(FRAMES, ContrastSettings(window=3, exposure_ms=4, edges="reflect"), device="cpu")
    for path, array in zip(outputs, (expected.contrast, expected.index, expected.mask), strict=True):
        np.testing.assert_array_equal(tifffile.imread(path), array)
    assert capsys.readouterr().out.split() == [str(path) for path in outputs]


def test_blocks_report_what_was_left_out(tmp_path, stack, capsys):
    assert call(stack, "--contrast", tmp_path / "k.tif", "--mode", "temporal", "--frames", 4, "--blocks") == 0
    assert tifffile.imread(tmp_path / "k.tif").shape == (20, 24)
    assert "the last 2 of 6 frames" in capsys.readouterr().err


def test_flow_relative_to_a_baseline(tmp_path, stack):
    assert call(stack, "--index-out", tmp_path / "f.tif", "--index", "relative", "--baseline", 1, 3) == 0
    settings = ContrastSettings(index="relative")
    k2 = contrast(FRAMES[1:4], device="cpu").squared.mean(axis=0, dtype=float)
    expected = contrast(FRAMES, settings, baseline=k2, device="cpu")
    np.testing.assert_allclose(tifffile.imread(tmp_path / "f.tif"), expected.index, rtol=1e-6)


def test_a_baseline_over_itself_is_one():
    settings = ContrastSettings(index="relative", mode="temporal", frames=6)
    k2 = baseline_k2(FRAMES, settings, noise=measure_dark(np.zeros((2, 20, 24))), device="cpu")
    np.testing.assert_allclose(contrast(FRAMES, settings, baseline=k2, device="cpu").index, 1.0, rtol=1e-6)


def test_dark_frames_and_registration(tmp_path, stack, capsys):
    dark = np.random.default_rng(1).integers(40, 60, (30, 20, 24), np.uint16)
    tifffile.imwrite(tmp_path / "dark.tif", dark)
    out = tmp_path / "k.tif"
    assert call(stack, "--contrast", out, "--dark", tmp_path / "dark.tif", "--gain", 0.2) == 0
    expected = contrast(FRAMES, noise=measure_dark(dark, gain=0.2), device="cpu")
    np.testing.assert_array_equal(tifffile.imread(out), expected.contrast)
    assert call(stack, "--contrast", out, "--register") == 0
    assert "5 of 6 frames (1, 2, 3, 4, 5) have no detail in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give --contrast"),
        (["--contrast", "k.png"], "does not end in .tif"),
        (["--contrast", "gone/k.tif"], "does not exist; create it"),
        (["--index-out", "i.tif", "--index", "none"], "leave one of them out"),
        (["--mask-out", "m.tif", "--no-mask"], "--no-mask leaves it out"),
        (["--contrast", "k.tif", "--baseline", 0, 1], "no meaning without --index relative"),
        (["--contrast", "k.tif", "--index", "relative", "--baseline", 0, 9], r"--baseline is 0 9"),
    ],
)
def test_what_has_no_meaning_is_reported_before_the_run(tmp_path, monkeypatch, stack, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=sentence):
        call(stack, *arguments)
