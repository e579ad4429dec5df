import numpy as np
from tests.light.test_optode_placing import *
def test_dbg(viewer, placed):
    viewer.dims.ndisplay = 3
    placed.place_source(TOP)
    start = on_screen(position(placed))
    Mouse(viewer, view=(-1.0, 0.0, 0.0)).drag(start, moved(start, 0.0, 3.0, 2.0))
    print("DBG", viewer.dims.point, placed.desk._goes_later, [c for c in viewer.dims.events.ndisplay.callbacks])
    real = placed.desk._on_ndisplay
    viewer.dims.ndisplay = 2
    print("DBG", viewer.dims.point, placed.desk._goes_later, on_screen(position(placed)), viewer.layers["source and detectors"].shown)
    assert 0
