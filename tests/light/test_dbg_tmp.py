import numpy as np
from tests.light.test_optode_placing import *
def test_dbg(viewer, placed):
    viewer.dims.ndisplay = 3
    placed.place_source(TOP)
    start = on_screen(position(placed))
    mouse = Mouse(viewer, view=(-1.0, 0.0, 0.0))
    away = np.array([50.0, 0.0, 0.0])
    mouse.drag(start + away, moved(start + away, 0.0, 3.0, 2.0), moved(start + away, 0.0, 8.0, -4.0))
    print("DBG", viewer.dims.point, on_screen(position(placed)), placed.desk.layers.reach, viewer.dims.range)
    viewer.dims.ndisplay = 2
    print("DBG", viewer.dims.point, placed.desk.layers._markers, viewer.layers["source and detectors"].shown, viewer.layers["source and detectors"].data)
    assert 0
