"""Benchmark cases with known absorption: those of MCX, of GPU-ANLM, and a layered skin.

A grid position (mm from the outer corner of the first voxel) is the world position (but for the head), so that sources
are where MCX puts them with an origin of 0. As in MCX, no light is lost where it enters, and what is older than the
last time gate is left out.
"""

from collections.abc import Callable

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.phantom.benchmarks import mcx, published
from napari_gpubio.light.phantom.benchmarks.case import Case, Reference

_MAKERS: dict[str, Callable[[], Case]] = {
    "cube60": mcx.cube60,
    "cube60b": mcx.cube60b,
    "cube60planar": mcx.cube60planar,
    "cubesph60b": mcx.cubesph60b,
    "diffusion60": mcx.diffusion60,
    "spherebox": mcx.spherebox,
    "sphshells": mcx.sphshells,
    "skinvessel": mcx.skinvessel,
    "onecube": mcx.onecube,
    "twocube": mcx.twocube,
    "B1": published.b1,
    "B2": published.b2,
    "B3": published.b3,
    "skin7": published.skin7,
    "head": published.head,
}
BENCHMARKS = tuple(_MAKERS)

__all__ = ["BENCHMARKS", "Case", "Reference", "benchmark"]


def benchmark(name: str) -> Case:
    """Make a benchmark.

    Parameters
    ----------
    name
        One of `BENCHMARKS`.

    Raises
    ------
    InvalidInput
        If there is no such benchmark.
    """
    if name not in _MAKERS:
        raise InvalidInput(f"there is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)}")
    return _MAKERS[name]()
