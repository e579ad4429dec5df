"""`napari-gpubio check` and `bench`: what they run, print and leave, with and without a window."""

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from napari_gpubio import cli, diffusion
from napari_gpubio.core.checks import Check, Finding, Speed, z_score_finding
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.denoise import checks as denoise_cases
from napari_gpubio.diffusion import checks as scan_cases
from napari_gpubio.fibers import checks as cases
from napari_gpubio.light import checks as light_cases
from napari_gpubio.speckle import checks as speckle_cases
from tests.diffusion.brain_samples import coarse_brain

SPECKLE_PANEL = "napari_gpubio.speckle.gui.checks"


@pytest.fixture
def one_engine(monkeypatch):
    """Without the other engines, whose real cases take their time."""
    monkeypatch.setattr(cli, "CHECKED", ("fibers",))


def finding(error, tolerance=1e-3):
    return Finding(quantity="end point (mm)", reference=1.0, result=1.0 + error, error=error, tolerance=tolerance)


def made_up(*errors):
    return (Check(name="made up", source="nowhere", run=lambda device: [finding(e) for e in errors]),)


def test_check_runs_the_reference_cases(capsys, monkeypatch):
    kept = [check for check in cases.CHECKS if check.name in ("constant, hamiltonian", "ring, power 1, vanaart2011")]
    assert len(kept) == 2
    monkeypatch.setattr(cases, "CHECKS", kept)
    assert cli.main(["check", "fibers", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "on cpu (" in printed
    assert "4 of 4 passed" in printed
    assert printed.count("  ok\n") == 4


def test_the_error_of_a_statistical_finding_is_its_z_score():
    found = z_score_finding("absorbed", reference=1.0, result=2.5, standard_error=0.3, reference_error=0.4)
    assert found.error == pytest.approx(3.0)
    assert z_score_finding("absorbed", reference=2.0, result=1.0, standard_error=0.5).error == pytest.approx(-2.0)


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("error", [-2e-3, 2e-3, math.nan, math.inf])
def test_a_case_that_fails_is_printed_and_gives_status_one(capsys, monkeypatch, error):
    monkeypatch.setattr(cases, "CHECKS", made_up(1e-4, error))
    assert cli.main(["check", "--device", "cpu"]) == 1
    printed = capsys.readouterr().out
    assert "FAILED (more than 0.001)" in printed
    assert "1 of 2 passed" in printed
    assert cli.main(["check", "fibers", "--json", "--device", "cpu"]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["passed"] for row in rows] == [True, False]


@pytest.mark.usefixtures("one_engine")
def test_check_as_json_holds_all_there_is_to_know(capsys, monkeypatch):
    monkeypatch.setattr(cases, "CHECKS", made_up(5e-4))
    assert cli.main(["check", "--json", "--device", "cpu"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["device"].startswith("cpu (")
    assert report["machine"]["numpy"] == np.__version__
    numbers = {"reference": 1.0, "result": 1.0005, "error": 5e-4, "tolerance": 1e-3}
    texts = {"part": "fibers", "case": "made up", "source": "nowhere", "quantity": "end point (mm)"}
    assert report["rows"] == [{**texts, **numbers, "passed": True}]


@pytest.mark.parametrize("can_open", [True, False])
def test_checks_of_dock_widgets_need_a_window(capsys, monkeypatch, can_open):
    monkeypatch.setattr(cli, "can_open_window", lambda: can_open)
    monkeypatch.setattr(speckle_cases, "CHECKS", made_up(1e-4))
    panel = SimpleNamespace(CHECKS=made_up(2e-4, 3e-4), __name__=SPECKLE_PANEL)
    monkeypatch.setitem(sys.modules, SPECKLE_PANEL, panel)
    assert cli.main(["check", "speckle", "--device", "cpu"]) == 0
    printed = capsys.readouterr()
    assert f"{3 if can_open else 1} of" in printed.out
    assert ("the checks of dock widgets are left out (speckle)" in printed.err) != can_open


def test_a_window_that_fails_costs_no_other_result(capsys, monkeypatch):
    def fail(_device):
        raise InvalidInput("no live map came")

    monkeypatch.setattr(cli, "can_open_window", lambda: True)
    monkeypatch.setattr(speckle_cases, "CHECKS", made_up(1e-4))
    panel = SimpleNamespace(
        CHECKS=(Check(name="a window", source="nowhere", run=fail), *made_up(2e-4)), __name__=SPECKLE_PANEL
    )
    monkeypatch.setitem(sys.modules, SPECKLE_PANEL, panel)
    assert cli.main(["check", "speckle", "--json", "--device", "cpu"]) == 1
    printed = capsys.readouterr()
    assert [row["passed"] for row in json.loads(printed.out)["rows"]] == [True, False, True]
    assert "a window: no live map came" in printed.err
    assert cli.main(["check", "speckle", "--device", "cpu"]) == 1
    assert "2 of 3 passed" in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["a display", "Qt", "its start"])
def test_a_window_needs_a_display_and_a_qt_that_starts(monkeypatch, missing):
    monkeypatch.setattr(cli, "has_display", lambda: missing != "a display")
    monkeypatch.setattr(cli, "qt_starts", lambda: missing != "its start")
    assert cli.can_open_window() == (missing == "Qt")
    monkeypatch.setitem(sys.modules, "qtpy.QtWidgets", None)
    assert not cli.can_open_window()


@pytest.mark.skipif(sys.platform != "linux", reason="displays have names on Linux")
def test_a_display_that_is_gone_is_no_crash(monkeypatch):
    for name in ("WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":4711")
    assert not cli.qt_starts()


def test_every_closed_form_is_a_case():
    names = {check.name for check in cases.CHECKS}
    assert len(names) == len(cases.CHECKS)
    for field in diffusion.phantom.analytic_fields():
        assert f"{field.name}, hamiltonian" in names


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("arguments", [["bench", "fibers", "--json"], ["bench"]])
def test_bench_measures_the_speed_cases(capsys, monkeypatch, arguments):
    done = []

    def prepare(device):
        def work():
            done.append(str(device))
            return 12.0

        return work

    monkeypatch.setattr(cases, "SPEEDS", (Speed(name="a dozen", unit="points", prepare=prepare),))
    assert cli.main([*arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert set(done) == {"cpu"}
    assert len(done) > 2  # a warm-up and some repeats
    if "--json" in arguments:
        (row,) = json.loads(printed)["rows"]
        assert (row["case"], row["amount"], row["unit"]) == ("a dozen", 12.0, "points")
        assert row["per_second"] == pytest.approx(12.0 / row["seconds"])
        assert row["spread"] >= 0
    else:
        assert "a dozen" in printed
        assert "points/s" in printed


def test_the_speed_cases_count_what_they_do():
    fit = next(speed for speed in scan_cases.SPEEDS if speed.name.startswith("weighted tensor fit"))
    field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom(), device="cpu")
    assert (fit.unit, fit.prepare(cli.choose_device("cpu"))()) == ("voxels", float(field.mask.sum()))


@pytest.mark.parametrize("speed", cases.SPEEDS, ids=lambda speed: speed.name)
def test_fibers_are_timed(speed, monkeypatch):
    monkeypatch.setattr(cases, "load_brain_phantom", coarse_brain)
    assert speed.prepare(cli.choose_device("cpu"))() > 0


@pytest.mark.long
@pytest.mark.parametrize("speed", light_cases.SPEEDS, ids=lambda speed: speed.name)
def test_light_is_timed(speed, monkeypatch):
    monkeypatch.setattr("napari_gpubio.layered.checks.photons_on", lambda _, photons: photons // 100)
    assert speed.prepare(cli.choose_device("cpu"))() in (50, 200, 400, 1000, 2000, 4000)


@pytest.mark.long
@pytest.mark.parametrize("speed", denoise_cases.SPEEDS, ids=lambda speed: speed.name)
def test_filters_are_timed(speed, monkeypatch):
    whole = denoise_cases.head_volume
    monkeypatch.setattr(denoise_cases, "head_volume", lambda *shape: whole(*(n // 5 for n in shape)))
    assert speed.prepare(cli.choose_device("cpu"))() in (20**3, 51 * 51 * 6)


@pytest.mark.usefixtures("one_engine")
def test_an_interrupted_run_has_its_own_status(capsys, monkeypatch):
    def interrupted(device):
        raise KeyboardInterrupt

    monkeypatch.setattr(cases, "CHECKS", (Check(name="long", source="-", run=interrupted),))
    assert cli.main(["check", "--device", "cpu"]) == 130
    assert capsys.readouterr().err == "napari-gpubio: stopped\n"
