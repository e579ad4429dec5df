import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.gui.lines import Uniform, pack_lines
from napari_gpubio.gui.lines.packed import display_matrix, thumbnail


@pytest.mark.parametrize("displayed", [[1, 2], [0, 2], [0, 1], [2, 1], [0, 1, 2], [1, 2, 0]])
def test_display_matrix_selects_axes_of_a_straight_layer(displayed):
    matrix = display_matrix(np.diag([3.0, -2.0, 1.5]), displayed)
    zyx = np.array([10.0, 20.0, 30.0])
    assert matrix[: len(displayed)] @ zyx[::-1] == pytest.approx(zyx[displayed[::-1]])
    assert not matrix[len(displayed) :].any()


@pytest.mark.parametrize("displayed", [[1, 2], [0, 2], [0, 1]])
def test_display_matrix_mends_the_projection_of_a_turned_layer(displayed):
    """napari's own part of the transform, applied after the matrix, gives the true world coordinates."""
    linear = Rotation.from_euler("xyz", [0.3, -0.2, 0.4]).as_matrix() @ np.diag([3.0, -2.0, 1.5])
    zyx = np.array([10.0, 20.0, 30.0])
    local = display_matrix(linear, displayed)[:2] @ zyx[::-1]
    rows = displayed[::-1]
    assert linear[np.ix_(rows, rows)] @ local == pytest.approx((linear @ zyx)[rows])


def test_a_thumbnail_shows_each_point_in_its_color():
    lines = pack_lines([[0, 0, 0], [0, 9, 9], [0, 9, 0]], [0, 3], paint=Uniform((0, 1, 0)))
    picture = thumbnail(lines, [1, 2], (10, 10, 4))
    assert (picture[[0, 9, 9], [0, 9, 0]] == [0, 255, 0, 255]).all()
    assert picture[..., 1].sum() == 3 * 255
    assert not thumbnail(pack_lines(np.empty((0, 3)), [0]), [1, 2], (10, 10, 4))[..., :3].any()
