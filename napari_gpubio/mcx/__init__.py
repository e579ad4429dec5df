"""Input files of Monte Carlo eXtreme (MCX): read, written, and run as they are, with the files that MCX would write."""

from types import ModuleType

from napari_gpubio.core.submodules import submodule

_MODULES = ("io",)
__all__ = [
    "io",
]


def __getattr__(name: str) -> ModuleType:
    return submodule(__name__, name, _MODULES)
