"""The plugin's manifest: nothing declared that is not there, nothing used that is not declared."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from npe2 import PluginManifest
from npe2.manifest import contributions
from npe2.manifest.utils import import_python_name

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "napari_gpubio" / "napari.yaml"


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    """The file as written, before npe2 fills in and drops things."""
    return yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def contributed(manifest) -> dict[str, Any]:
    """What the plugin contributes."""
    return manifest["contributions"]


def find(node: Any, key: str):
    """Yield every value under ``key`` at any depth."""
    if isinstance(node, dict):
        if isinstance(node.get(key), str):
            yield node[key]
        for child in node.values():
            yield from find(child, key)
    elif isinstance(node, list):
        for child in node:
            yield from find(child, key)


def test_npe2_accepts_it(manifest):
    assert PluginManifest.from_file(MANIFEST).name == manifest["name"] == "napari-gpubio"
    command = [sys.executable, "-m", "npe2", "validate", str(MANIFEST)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_key_is_unknown(manifest, contributed):
    assert set(manifest) <= set(PluginManifest.model_fields)  # npe2 would ignore it in silence
    assert set(contributed) <= set(contributions.ContributionPoints.model_fields)


@pytest.mark.parametrize(
    ("point", "model"),
    [
        ("commands", contributions.CommandContribution),
        ("readers", contributions.ReaderContribution),
        ("writers", contributions.WriterContribution),
        ("widgets", contributions.WidgetContribution),
        ("submenus", contributions.SubmenuContribution),
    ],
)
def test_no_key_of_a_contribution_is_unknown(contributed, point, model):
    known = {name for name, field in model.model_fields.items()} | {
        field.alias for field in model.model_fields.values() if field.alias
    }
    for entry in contributed.get(point, []):
        assert set(entry) <= known, entry


def test_every_command_is_declared_once_and_used(contributed):
    declared = [command["id"] for command in contributed["commands"]]
    assert len(declared) == len(set(declared))
    used = set(find({k: v for k, v in contributed.items() if k != "commands"}, "command"))
    assert used == set(declared)


def test_every_command_can_be_imported(contributed):
    for command in contributed["commands"]:
        assert command["id"].startswith("napari-gpubio."), command
        assert callable(import_python_name(command["python_name"])), command


def test_every_menu_exists(contributed):
    from napari._app_model.constants._menus import MenuId

    own = {menu["id"] for menu in contributed.get("submenus", [])}
    known = {str(menu.value) for menu in MenuId.contributables()} | own
    menus = contributed.get("menus", {})
    assert set(menus) <= known
    assert {item["submenu"] for items in menus.values() for item in items if "submenu" in item} == own


def test_samples_are_made_by_commands(contributed):
    assert all("command" in sample for sample in contributed.get("sample_data", []))


@pytest.mark.skipif(sys.platform == "win32", reason="git makes no symbolic links on Windows")
def test_the_copy_at_the_top_is_the_same_file():
    assert (ROOT / "napari.yaml").resolve() == MANIFEST
    assert (ROOT / "napari.yaml").read_text(encoding="utf-8") == MANIFEST.read_text(encoding="utf-8")
