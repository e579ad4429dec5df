"""Each panel that copies a script has a test that runs it, and compares its numbers with those on screen bit by bit."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
import yaml

from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.light.gui.panel import MODES

MANIFEST = Path(importlib.import_module("napari_gpubio").__file__).with_name("napari.yaml")
TESTS = {
    "tensors": ("fibers.gui.test_scripts", "test_maps_with_their_limits_and_ellipsoids"),
    "bids": ("workflows.test_bids_panel", "test_the_script_reads_what_is_shown"),
    "connect": ("fibers.gui.test_connect_panel", "test_the_script_shows_the_same_routes"),
    "connectome": ("fibers.gui.test_connectome_panel", "test_the_script_makes_the_same_matrix"),
    "flow": ("fibers.gui.test_flow_panel", "test_its_script_makes_the_same_map"),
    "fods": ("diffusion.gui.test_fod_panel", "test_the_script_makes_the_same_fods"),
    "dissection": ("tractograms.gui.test_dissection_panel", "test_the_script_writes_the_same_fibers"),
    "profiles": ("tractograms.gui.test_profiles_panel", "test_the_script_writes_the_same_numbers"),
    "tracking": ("fibers.gui.test_scripts", "test_all_bundles_filters_and_colors"),
    "uncertainty": ("fibers.gui.test_uncertainty_panel", "test_the_script_shows_the_same_map"),
    "light, voxels": ("light.gui.test_panel_files", "test_the_script_gives_the_same_numbers"),
    "light, layers": ("light.gui.layers.test_panel_files", "test_the_script_gives_the_same_numbers"),
    "denoise": ("denoise.gui.test_script", "test_inputs_without_a_file_are_saved_beside_the_script"),
    "dose": ("dose.gui.test_export", "test_the_script_of_files_makes_curves_and_prints_the_table"),
    "registration": (
        "registration.gui.test_registration_panel",
        "test_a_run_its_figures_and_the_script_with_what_was_carried_over",
    ),
    "session": ("gui.test_session_panel", "test_the_script_of_a_session_makes_every_layer"),
    "speckle": ("speckle.gui.test_speckle_stack", "test_the_script_makes_the_same_maps"),
}
AFTER_A_RUN = {
    "light, cleaned and counted": ("workflows.test_buttons", "test_the_copied_script_cleans_and_counts_as_on_screen")
}
COPIES, RUNS, COMPARES = (
    r"\bscript_of\(",
    r"\b(run_script|run_script_here|shown_by_script|exec)\(",
    r"\b(assert_)?array_equal\(",
)


def panels():
    """Names of the panels in the manifest that copy scripts; one with two modes counts twice."""
    contributed = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["contributions"]
    places = {command["id"]: command["python_name"] for command in contributed["commands"]}
    for widget in contributed["widgets"]:
        module, name = places[widget["command"]].split(":")
        panel = getattr(importlib.import_module(module), name)
        if issubclass(panel, EnginePanel):
            short = widget["command"].removeprefix("napari-gpubio.")
            yield from [f"{short}, {mode}" for mode in MODES] if short == "light" else [short]


def text_of(function, seen):
    """The source of a function, and of those that it calls in the tests of its panel."""
    text = inspect.getsource(function)
    seen.add(function)
    for word in re.findall(r"\b(\w+)\(", text):
        called = getattr(inspect.getmodule(function), word, None)
        if (
            inspect.isfunction(called)
            and called not in seen
            and re.match(r"tests\.(\w+\.gui|workflows)", called.__module__)
        ):
            text += text_of(called, seen)
    return text


def test_every_panel_of_the_manifest_is_in_the_table():
    assert sorted(panels()) == sorted(TESTS)


@pytest.mark.parametrize("panel", [*TESTS, *AFTER_A_RUN])
def test_a_test_copies_the_script_runs_it_and_compares_bits(panel):
    module, name = (TESTS | AFTER_A_RUN)[panel]
    text = text_of(getattr(importlib.import_module(f"tests.{module}"), name), set())
    for needed in (COPIES, RUNS, COMPARES):
        assert re.search(needed, text), f"{name} of {panel} does not contain {needed}"
