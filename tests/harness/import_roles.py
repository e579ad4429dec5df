"""Contracts of import-linter for what a module's name says it is: its role, wherever it lies.

Inside an engine a module may import those of its own role and of the roles below; a module of no role may be imported
by all, and imports nothing that shows, checks or records. No modules import each other in a circle, also not inside
functions. Modules are not listed: one that is new, or in the wrong place, is judged by its name.
"""

import graphlib
from collections.abc import Iterable, Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

Import = tuple[str, str]


class RoleContract(Contract):
    """Modules of an engine import none of a role above their own.

    ``root``: the package; engines are its folders, but for those of ``beside``. ``roles``: words that a folder or a
    module is named, those of one level separated by colons, the highest first. ``bare``: the level up to which modules
    of no role may import.
    """

    type_name = "roles"
    root = fields.StringField()
    roles = fields.ListField(subfield=fields.StringField())
    bare = fields.StringField()
    beside = fields.SetField(subfield=fields.StringField())
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find imports that go up."""
        ignored = {(str(one.importer), str(one.imported)) for one in self.ignore_imports or ()}
        wrong = [one for one in self._upward(graph) if one not in ignored]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name the imports that go up."""
        for importer, imported in check.metadata["wrong"]:
            output.print_error(f"{importer} ({self._role(importer) or 'no role'}) imports {imported}")
            output.print_error(f"    which is {self._role(imported)}, and stands above it.")

    def _upward(self, graph: ImportGraph) -> Iterator[Import]:
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                engine = self._engine(importer)
                if engine is None or engine != self._engine(imported) or _is_face(graph, importer, imported):
                    continue
                role = self._role(imported)
                if role and self._level(role) < self._level(self._role(importer) or self.bare):
                    yield importer, imported

    def _engine(self, module: str) -> str | None:
        """The engine that a module is of; None outside of the package."""
        first, *rest = module.split(".")
        return rest[0] if first == self.root and len(rest) > 1 and rest[0] not in self.beside else None

    def _role(self, module: str) -> str | None:
        """What the first of its names that is a role, or ends in one, says; None if none does."""
        words = {word for level in self.roles for word in map(str.strip, level.split(":"))}
        names = (name for part in module.split(".")[2:] for name in (part, part.rpartition("_")[2]))
        return next((name for name in names if name in words), None)

    def _level(self, role: str) -> int:
        """0 for the highest."""
        return next(n for n, level in enumerate(self.roles) if role in map(str.strip, level.split(":")))


def _is_face(graph: ImportGraph, importer: str, imported: str) -> bool:
    """Whether a package hands on names of its own modules."""
    return imported.startswith(f"{importer}.") and bool(graph.find_children(importer))


class NoCircles(Contract):
    """No modules import each other in a circle, whether at the top or inside functions."""

    type_name = "no_circles"
    root = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find a circle."""
        own = {module for module in graph.modules if module.split(".")[0] == self.root}
        needs = {module: set(self._needed(graph, module)) & own for module in own}
        try:
            graphlib.TopologicalSorter(needs).prepare()
        except graphlib.CycleError as error:
            return ContractCheck(kept=False, metadata={"circle": error.args[1]})
        return ContractCheck(kept=True)

    def _needed(self, graph: ImportGraph, module: str) -> Iterable[str]:
        """What a module imports; of a package that hands on its modules, these are no circle."""
        imported = graph.find_modules_directly_imported_by(module)
        return (one for one in imported if not module.startswith(f"{one}."))

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name the modules of the circle."""
        output.print_error(" -> ".join(check.metadata["circle"]))
