"""What the pages of the site name is there: commands are understood, names of Python exist, studies have results."""

import ast
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from napari_gpubio.cli import make_parser

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [
    path
    for path in sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
    if not {"_build", "generated"} & {*path.relative_to(ROOT).parts}
]
FENCE = re.compile(r"^```+\{?(?P<kind>[\w-]*)[^\n]*\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
NAME = "napari-gpubio"


def blocks(page, *kinds):
    """The code of a page in fences of some kinds, without options of directives."""
    found = [match["text"] for match in FENCE.finditer(page.read_text("utf-8")) if match["kind"] in kinds]
    return [re.sub(r"(?m)\A(:[\w-]+:.*\n)+", "", text) for text in found]


def commands(page):
    """The commands of this program that a page shows, without what pipes and variables add."""
    lines = "\n".join(blocks(page, "console", "bash", "sh", "code-cell", "", "text")).replace("\\\n", " ").splitlines()
    for line in lines:
        shown = re.match(rf"\s*[$!]?\s*({NAME} [^|>&;#]*)", line)
        if shown and "…" not in line and "..." not in line and "$(" not in line and "{" not in line:
            yield shlex.split(shown[1], comments=True)[1:]


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=lambda path: path.stem)
def test_commands_are_understood(page, capsys):
    for command in commands(page):
        assert not_understood(command) == 0, (command, capsys.readouterr().err)


def not_understood(command):
    """The exit status of a command's parser; a help or a version ends well, too."""
    try:
        make_parser(command).parse_args(command)
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python", "code-cell")], ids=lambda path: path.stem
)
def test_names_of_python_exist(page):
    code = "\n".join(block for block in blocks(page, "python", "code-cell") if not block.startswith("%%"))
    tree = ast.parse(re.sub(r"(?m)^(\s*)[!%].*$", r"\1pass", code))
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("napari_gpubio"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                known[alias.asname or alias.name] = getattr(module, alias.name)
    modules = {name: value for name, value in known.items() if isinstance(value, type(sys))}
    for chain in {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}:
        first, *rest = chain.split(".")
        if first in modules and all(part.isidentifier() for part in rest):
            value = modules[first]
            for part in rest:
                if not isinstance(value, type(sys)):
                    break
                assert hasattr(value, part), f"{page.name}: {chain}"
                value = getattr(value, part)


def test_every_result_is_of_a_study_and_every_study_has_results():
    sys.path.insert(0, str(DOCS / "extensions"))
    try:
        measured = importlib.import_module("measured")
    finally:
        sys.path.pop(0)
    studies = {study.results: study for study in measured.studies()}
    named = {measured.DATED.fullmatch(path.stem)["study"] for path in measured.RESULTS.glob("*.md")}
    assert named == {*studies}
    for study in studies.values():
        script = study.in_full.split()[1].removesuffix(".py")
        assert study.command.startswith(NAME) or any((ROOT / f"{script}{end}").exists() for end in ("", ".py")), study
