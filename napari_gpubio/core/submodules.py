"""Modules of a package that are imported when they are first used, so that to import the package is quick."""

import importlib
from collections.abc import Collection
from types import ModuleType
from typing import Any

from napari_gpubio.core.errors import InvalidInput


def submodule(package: str, name: str, among: Collection[str]) -> ModuleType:
    """Import a module of a package that is one of some; what the ``__getattr__`` of a package returns.

    Parameters
    ----------
    package, name
        Their names: ``__name__``, and what is asked for.
    among
        Names that may be asked for.

    Raises
    ------
    AttributeError
        If it is none of these.

    Examples
    --------
    >>> submodule("napari_gpubio.core", "space", ("space", "steps")).__name__
    'napari_gpubio.core.space'
    """
    if name in among:
        return importlib.import_module(f"{package}.{name}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def extra(module: str, name: str, what: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module
        That is imported.
    name
        Of the extra of this package that has it.
    what
        Needs it, in the words of a sentence.

    Raises
    ------
    InvalidInput
        If it is not installed, with the way to do so.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"{what} needs the package {module.partition('.')[0]}; install it with pip install 'napari-gpubio[{name}]'"
        ) from error
