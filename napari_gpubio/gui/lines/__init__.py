"""The numbers behind the streamlines layer: packed lines, their colors, and the line nearest to a click.

Nothing here knows napari, Qt or vispy, so that a worker thread can do all of it. Points come in a layer's axes
(z, y, x); vertices are kept as the graphics card needs them, (x, y, z, color). The kernels run on one thread and
release the GIL: they share a process with engines that run Numba's own threads.
"""

from napari_gpubio.gui.lines.packed import Lines, pack_lines, painted
from napari_gpubio.gui.lines.paint import DIRECTION, UNIFORM, ByDirection, ByNumber, Paint, Uniform

__all__ = ["DIRECTION", "UNIFORM", "ByDirection", "ByNumber", "Lines", "Paint", "Uniform", "pack_lines", "painted"]
