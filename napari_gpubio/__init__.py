"""Interactive brain and tissue physics in napari.

Each engine is a folder with a headless Python API and two backends, Numba on the CPU and CUDA on the GPU.
What joins them is in ``workflows``. All are imported on first use, so that ``import napari_gpubio`` stays light.
"""

import importlib
from types import ModuleType

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "denoise",
    "diffusion",
    "dose",
    "fibers",
    "layered",
    "light",
    "mcx",
    "optics",
    "probes",
    "registration",
    "speckle",
    "tractograms",
    "workflows",
]

ENGINES = (
    "diffusion",
    "tractograms",
    "fibers",
    "optics",
    "layered",
    "light",
    "probes",
    "mcx",
    "denoise",
    "registration",
    "dose",
    "speckle",
)


def __getattr__(name: str) -> ModuleType:
    if name in (*ENGINES, "workflows"):
        return importlib.import_module(f"napari_gpubio.{name}")
    raise AttributeError(f"module 'napari_gpubio' has no attribute {name!r}")
