"""How densely a structure must be sampled for a wanted accuracy.

Samples with one in every cell of edge h miss the volume above a dose by what the isodose cuts off the cells it passes:
about S / h^2 cells (S: area of the isodose inside the structure), each wrong by a random part of h^3. So the error is
c h^2 sqrt(S), and with S near V^(2/3) its share of the volume V is c (h / L)^2, L = V^(1/3). The tests hold ``_FACTOR``
against closed forms.
"""

import numpy as np

from napari_gpubio.dose.kernels.histogram.chords import volume_of_rows
from napari_gpubio.dose.kernels.histogram.sheets import make_sheets
from napari_gpubio.dose.structures.edges import Edges

_FACTOR = 2.0  # c: of the largest error of a curve
_LOOK_ROWS = 32  # of a first look at a structure, along its largest extent


def spacing_for(volume_mm3: float, accuracy_percent: float, most_mm: float) -> float:
    """Edge of a cell, mm, that suits a structure of some volume; ``most_mm`` (a dose voxel) at most."""
    wanted = np.cbrt(volume_mm3) * np.sqrt(0.01 * accuracy_percent / _FACTOR)
    return min(float(wanted), most_mm) or most_mm


def rough_volume_mm3(edges: Edges) -> float:
    """About the volume of a structure by few rows: what its sampling is chosen from."""
    extent = float(edges.extents[:, 3].max() - edges.extents[:, 1].min())
    look = make_sheets(edges, max(extent / _LOOK_ROWS, 1e-6), np.inf)
    return float(volume_of_rows(look.table, look.rows, look.edges))
