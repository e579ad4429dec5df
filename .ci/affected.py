"""Which folders of tests a change can break: those whose own files, or what these import, are in it.

    git diff --name-only origin/main... | python .ci/affected.py        prints a JSON list such as ["tests/dose"]

What the tests of all folders use, and what decides which packages are installed, affects every folder.
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TESTS = "napari_gpubio", ROOT / "tests"
FOR_ALL = ("pyproject.toml", "start.py", ".ci/", "napari.yaml", "napari_gpubio/napari.yaml", "sample_data/")


def affected(changed: Iterable[str]) -> list[str]:
    """Folders of tests that these files, relative to the repository, can break."""
    files = set(changed)
    folders = sorted(folder for folder in TESTS.iterdir() if any(folder.rglob("test_*.py")))
    names = [folder.relative_to(ROOT).as_posix() for folder in folders]
    of_all = [file for file in files if file.startswith((*FOR_ALL, "tests/"))]
    if any(not file.startswith(tuple(f"{name}/" for name in names)) for file in of_all):
        return names
    graph = grimp.build_graph(PACKAGE)
    return [name for name, folder in zip(names, folders, strict=True) if files & set(used_by(folder, graph, files))]


def used_by(folder: Path, graph: grimp.ImportGraph, files: set[str]) -> Iterator[str]:
    """The files of a folder of tests, and those of what they import, however indirectly."""
    yield from (file for file in files if file.startswith(folder.relative_to(ROOT).as_posix() + "/"))
    others = [file for file in files if file.startswith(f"{PACKAGE}/") and not file.endswith(".py")]  # kernels, tables
    used: set[str] = set()
    for module in imported_by(folder) & graph.modules:
        used |= {module} | graph.find_descendants(module) | graph.find_upstream_modules(module, as_package=True)
    for problem in [module for module in used if module.endswith(".problem")]:
        for backend in graph.find_children(problem.rpartition(".")[0]):  # which the driver imports by name
            used |= {backend} | graph.find_upstream_modules(backend)
    for module in used:
        path = module.replace(".", "/")
        yield from (f"{path}.py", f"{path}/__init__.py")
        yield from (file for file in others if Path(file).parent == Path(path).parent)


def imported_by(folder: Path) -> set[str]:
    """Modules of the package that the tests of a folder import."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.startswith(f"{PACKAGE}.")}


if __name__ == "__main__":
    print(json.dumps(affected(sys.stdin.read().split())))
