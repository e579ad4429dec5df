"""The package as a whole: who may import whom, what a headless user need not load, and napari's manifest."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from npe2 import PluginManifest
from npe2.manifest import contributions
from npe2.manifest.utils import import_python_name

import napari_gpubio
from napari_gpubio import ENGINES

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("napari", "qtpy", "PyQt6", "PySide6", "vispy", "magicgui", "superqt", "pyqtgraph", "cupy")
HEAVY += ("numba", "scipy", "nibabel", "pydicom", "PIL", "h5py", "pandas")  # imported where they are used


def run_python(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_headless_and_quick_to_import(engine):
    code = f"import napari_gpubio.{engine}, sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python("-c", code) == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_every_public_name_of_an_engine_is_there(engine):
    module = importlib.import_module(f"napari_gpubio.{engine}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_engines_are_loaded_when_they_are_used():
    loaded = "'napari_gpubio.fibers' in sys.modules"
    code = f"import napari_gpubio as g, sys; print({loaded}, g.fibers.__name__, {loaded})"
    assert run_python("-c", code) == "False napari_gpubio.fibers True"
    with pytest.raises(AttributeError, match="no attribute 'gone'"):
        napari_gpubio.gone  # noqa: B018 - the access is the test


def test_the_contracts_between_rooms_hold():
    if importlib.util.find_spec("importlinter") is None:
        pytest.skip("import-linter is not installed: python -m pip install import-linter")
    run_python("-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))")


def test_the_files_that_contributors_are_sent_to_are_there():
    named = set(re.findall(r"`([\w./]+/\w+\.\w+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    there = {name for name in named if (ROOT / name).exists() or (ROOT / "napari_gpubio" / name).exists()}
    assert named - there <= {"io/__init__.py"}  # of any part
    assert len(there) > 30


AT_THE_TOP = {
    ".ci", ".clang-format", ".gitattributes", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md",
    "CITATION.cff", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "README.md", "benchmarks", "docs", "napari.yaml",
    "napari_gpubio", "pyproject.toml", "sample_data", "start.py", "tests",
}  # fmt: skip


def test_nothing_else_is_kept_at_the_top():
    """What a run by hand has left behind is easily committed with the rest."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no repository of git")
    assert {name.strip('"').split("/")[0] for name in listed.stdout.splitlines()} <= AT_THE_TOP


# -- the manifest: nothing declared that is not there, nothing used that is not declared -------------------------------


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


def test_npe2_accepts_it_and_knows_every_key(manifest, contributed):
    assert PluginManifest.from_file(MANIFEST).name == manifest["name"] == "napari-gpubio"
    run_python("-m", "npe2", "validate", str(MANIFEST))
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


def test_every_command_is_declared_once_used_and_can_be_imported(contributed):
    declared = [command["id"] for command in contributed["commands"]]
    assert len(declared) == len(set(declared))
    used = set(find({k: v for k, v in contributed.items() if k != "commands"}, "command"))
    assert used == set(declared)
    assert all("command" in sample for sample in contributed.get("sample_data", []))
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


@pytest.mark.skipif(sys.platform == "win32", reason="git makes no symbolic links on Windows")
def test_the_copy_at_the_top_is_the_same_file():
    assert (ROOT / "napari.yaml").resolve() == MANIFEST
    assert (ROOT / "napari.yaml").read_text(encoding="utf-8") == MANIFEST.read_text(encoding="utf-8")


# -- what indexes show, and other packagers take -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The table of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_recipe_of_conda_forge_needs_what_the_package_needs(project):
    recipe = yaml.safe_load((ROOT / ".ci/conda/recipe.yaml").read_text(encoding="utf-8"))
    run = {one.partition(" ")[0]: one.partition(" ")[2] for one in recipe["requirements"]["run"]}
    assert run.pop("python") == ">=${{ python_min }}"
    assert {f"{name}{bound}" for name, bound in run.items()} == set(project["dependencies"])
    assert project["requires-python"] == f">={recipe['context']['python_min']}"
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["summary"] == project["description"]


def test_the_version_is_the_same_wherever_it_is_written():
    recipe = yaml.safe_load((ROOT / ".ci/conda/recipe.yaml").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {recipe["context"]["version"], citation["version"], napari_gpubio.__version__} == {citation["version"]}
    assert re.fullmatch(r"10\.5281/zenodo\.\d+", citation.get("doi", "10.5281/zenodo.1"))


def test_the_hub_of_napari_finds_what_it_shows(project, manifest):
    assert "Framework :: napari" in project["classifiers"]
    assert 3 <= len(manifest["display_name"]) <= 90
    assert manifest["categories"]
    assert manifest["visibility"] == "public"
    assert {"all", "pyqt6", "pyside6"} <= set(project["optional-dependencies"])
    assert not any(re.search("qt6|pyside", one, re.IGNORECASE) for one in project["dependencies"])


def test_the_readme_has_no_link_that_breaks_on_another_site():
    spec = importlib.util.spec_from_file_location("check_packages", ROOT / ".ci" / "check_packages.py")
    checks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checks)
    assert checks.relative_links((ROOT / "README.md").read_text(encoding="utf-8")) == []
    assert checks.relative_links('[a](b.md) ![c](https://d.org/e.png) <img src="f.png"> [g](#h)') == ["b.md", "f.png"]


def test_classes_of_windows_have_no_keywords():
    """`class Panel(QWidget, of=...)` is refused by PySide6, and not by PyQt6."""
    files = [path for path in (ROOT / "napari_gpubio").rglob("*.py") if "gui" in path.parts]
    classes = [
        one for path in files for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.ClassDef)
    ]
    assert len(classes) > 100
    assert [one.name for one in classes if one.keywords] == []
