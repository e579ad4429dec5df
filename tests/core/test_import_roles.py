"""The contracts that judge modules by their names, on made-up packages."""

import grimp
import pytest

pytest.importorskip("importlinter", reason="import-linter is not installed: python -m pip install import-linter")

from tests.harness.import_roles import NoCircles, RoleContract

ROLES = ["gui", "checks", "operations : napari_io", "run", "io", "kernels", "settings : model"]


def contract(kind, **options):
    return kind(name="a contract", session_options={}, contract_options={"root": "package", **options})


def graph_of(*imports):
    graph = grimp.ImportGraph()
    for importer, imported in imports:
        for module in (importer, imported):
            parts = module.split(".")
            for end in range(1, len(parts) + 1):
                graph.add_module(".".join(parts[:end]))
        graph.add_import(importer=importer, imported=imported)
    return graph


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("package.heat.run", "package.heat.kernels.steps.cpu", True),
        ("package.heat.kernels.steps.cpu", "package.heat.run", False),
        ("package.heat.more.model", "package.heat.io.nifti", False),
        ("package.heat.io.nifti", "package.heat.more.model", True),
        ("package.heat.anywhere.cpu_kernels", "package.heat.run", False),
        ("package.heat.picture", "package.heat.gui.panel", False),
        ("package.heat.picture", "package.heat.run", True),
        ("package.heat.new_checks", "package.heat.gui.panel", False),
        ("package.heat.napari_io", "package.heat.operations.heating", True),
        ("package.heat.model", "package.cold.run", True),  # another contract tells which part may know which
        ("package.core.model", "package.core.run", True),
        ("package.heat", "package.heat.run", True),
    ],
)
def test_a_module_in_the_wrong_place_is_refused(importer, imported, allowed):
    roles = contract(RoleContract, roles=ROLES, bare="run", beside=["core"])
    found = roles.check(graph_of((importer, imported)), verbose=False)
    assert found.kept == allowed
    assert found.metadata.get("wrong") == ([] if allowed else [(importer, imported)])


def test_an_import_may_be_ignored_by_name():
    there = graph_of(("package.heat.model", "package.heat.kernels.cpu"))
    ignored = ["package.heat.model -> package.heat.kernels.cpu"]
    assert (
        contract(RoleContract, roles=ROLES, bare="run", beside=["core"], ignore_imports=ignored)
        .check(there, False)
        .kept
    )


def test_a_circle_is_found_and_a_package_that_hands_on_is_none():
    circles = contract(NoCircles)
    around = graph_of(("package.a", "package.b"), ("package.b", "package.c"), ("package.c", "package.a"))
    assert not circles.check(around, verbose=False).kept
    assert set(circles.check(around, verbose=False).metadata["circle"]) == {"package.a", "package.b", "package.c"}
    faces = graph_of(("package.a", "package.a.b"), ("package.a.b", "package.a"), ("package.a.b", "package.c"))
    assert circles.check(faces, verbose=False).kept
