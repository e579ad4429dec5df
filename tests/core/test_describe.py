"""What results say of themselves: facts, pictures that lie as the body does, tables, labeled arrays, and plots."""

import base64
import io
import re
import sys
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from napari_gpubio.core.describe import Curves, Fact, Line, Lines, Matrix, Rows, Slices, describes, description
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Gridded, GriddedArray, Tabular
from napari_gpubio.core.operations import Volume
from napari_gpubio.core.pages import html_of
from napari_gpubio.core.pictures import limits_of, picture, planes_of
from napari_gpubio.core.quantity import Quantity

FLIPPED = np.array([[-2.0, 0, 0, 10], [0, 0, 3.0, -5], [0, 1.5, 0, 7], [0, 0, 0, 1]])  # i left, j up, k to the front
mpl.use("agg")


@dataclass(frozen=True, eq=False)
class Sample(Tabular, GriddedArray, array="values"):
    """A result that says what a test gives it."""

    items: tuple
    values: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    complete: bool = True


@describes(Sample)
def _told(one):
    yield from one.items


def pictures_in(page):
    return [Image.open(io.BytesIO(base64.b64decode(one))) for one in re.findall(r'base64,([^"]+)"', page)]


def marked():
    """A volume whose only bright voxel lies far to the right, to the front, and up."""
    values = np.zeros((8, 9, 10), np.float32)
    values[0, 8, 9] = 1.0
    return values


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_slices_show_the_left_of_a_body_at_the_left_whatever_the_axes_of_the_file():
    planes = [*planes_of(Slices("dot", marked(), FLIPPED))]
    assert [plane.axes for plane in planes] == [(0, 1), (0, 2), (1, 2)]
    for plane in planes:
        assert np.argwhere(plane.values).tolist() == [[0, plane.values.shape[1] - 1]]  # at the top, at the right
    assert planes[0].extent == (10 - 2 * 7.5, 11.0, -6.5, -5 + 3 * 9.5)  # mm


def test_slices_go_through_what_there_is_and_the_voxel_that_is_given():
    assert Slices("dot", marked(), FLIPPED).center == (0, 8, 9)
    assert Slices("dot", marked(), FLIPPED, at=(99, 2, -3)).center == (7, 2, 0)
    assert Slices("dot", 0 * marked(), FLIPPED).center == (4, 4, 5)


def test_a_picture_has_the_edges_that_millimeters_have_and_a_bar():
    shown = picture(Slices("dot", marked(), FLIPPED))
    # wide, deep, high: 16, 30, 13.5 mm; the tallest slice has 200 pixels
    axial, coronal, sagittal = (round(200 / 30 * one) for one in (16, 16, 30))
    assert shown.shape == (200, axial + coronal + sagittal + 3 * 4 + 76, 3)


def test_logarithms_span_decades_and_nothing_is_black():
    values = np.geomspace(1e-9, 10.0, 1000).reshape(10, 10, 10)
    planes = [*planes_of(Slices("light", values, np.eye(4), style="log", at=(9, 9, 9)))]
    assert limits_of(planes, "log") == (-5.0, 1.0)
    nothing = picture(Slices("none", np.zeros((4, 4, 4)), np.eye(4), style="log"))
    assert nothing[50:60, 30:40].max() < 5


def test_a_plane_and_what_a_slice_is_reduced_to():
    frames = np.arange(24.0).reshape(2, 3, 4)
    (plane,) = planes_of(Slices("map", frames, np.eye(4), axes=("x", "y", "map"), shows=lambda one: one.max(axis=-1)))
    assert plane.values.tolist() == frames.max(axis=-1).T[::-1].tolist()
    (plane,) = planes_of(Slices("map", frames, np.eye(4), axes=("x", "y", "map")))
    assert plane.values.tolist() == frames[..., 0].T[::-1].tolist()


def test_lines_are_colored_by_direction_and_curves_by_number():
    across = Lines("fibers", np.array([[-10.0, 0, 0], [10.0, 0, 0], [0, -1, 0], [0, 1, 0]]), np.array([0, 2, 4]))
    image = picture(across).reshape(-1, 3).astype(int)
    red = (image[:, 0] > 200) & (image[:, 1:] < 100).all(axis=1)
    assert 100 < np.count_nonzero(red) < 5000
    assert picture(Lines("none", np.zeros((0, 3)), np.array([0]))).size
    x = np.linspace(0, 1, 9)
    curves = Curves(
        "rise", ("time", "s"), ("flow", "1/s"), (Line("a", x, x, 0 * x + 0.1), Line("b", x, np.full(9, np.nan)))
    )
    assert picture(curves).shape == (270, 620, 3)
    assert (np.abs(picture(curves).astype(int) - (0x00, 0x72, 0xB2)).sum(axis=-1) < 30).any()


# -- notebooks --------------------------------------------------------------------------------------------------------


def test_a_notebook_shows_facts_pictures_and_tables_and_no_markup_of_names():
    items = (
        Fact("fluence", 0.176912, "1/mm²", 0.00041), Fact("<b>", "<script>"), Slices("dot", marked(), FLIPPED),
        Rows("table", {"a": np.arange(40), "b": list("x" * 40)}), Rows("many", {"n": np.arange(1000)}, ordered=False),
    )  # fmt: skip
    page = Sample(items, notes=("mm is assumed",), complete=False)._repr_html_()
    assert "0.1769 ± 0.0004 1/mm²" in page
    assert "<script>" not in page
    assert [one.size[1] for one in pictures_in(page)] == [200]
    assert "28 more rows" in page
    assert "<td>mean</td><td>499.5</td>" in page
    assert "mm is assumed" in page
    assert "before its end" in page


def test_what_cannot_be_drawn_or_told_leaves_the_rest():
    def fails(_):
        raise RuntimeError("no luck")

    broken = Slices("FA", marked(), FLIPPED, shows=fails)
    page = html_of(Sample((Fact("voxels", 7), broken, Rows("table", {"a": [1]}))))
    assert "FA is not shown: no luck" in page
    assert "<td>1</td>" in page

    def failing():
        yield Fact("voxels", 7)
        raise RuntimeError("no more")

    assert [one.name for one in description(Sample(failing()))] == ["voxels", "not shown"]


def test_more_pictures_than_anybody_looks_at_are_named():
    many = tuple(Slices(f"gate {n}", marked(), FLIPPED) for n in range(20))
    page = html_of(Sample(many))
    assert len(pictures_in(page)) == 12
    assert "gate 12, gate 13" in page
    assert not pictures_in(html_of(Sample(many), pictures=False))


def test_an_unknown_type_tells_what_it_holds():
    @dataclass
    class Unknown:
        name: str
        size: float
        values: np.ndarray

    assert [one.text for one in description(Unknown("a", 2.5, np.zeros((2, 3))))] == ["a", "2.5", "2 x 3"]
    assert "<strong>int</strong>" in html_of(3)


# -- tables and arrays ------------------------------------------------------------------------------------------------


def test_tables_become_data_frames_by_their_names():
    names = ("left", "right")
    curves = Curves(
        "dvh", ("dose", "Gy"), ("volume", "%"), (Line("heart", [0, 1], [100, 5]), Line("lung", [0], [90], [2]))
    )
    sample = Sample(
        (Matrix("count", np.eye(2), names, names), Rows("fibers", {"length": [1.0]}, {"length": "mm"}), curves)
    )
    assert sample.to_dataframe().loc["left", "right"] == 0
    assert sample.to_dataframe("fibers").attrs["units"] == {"length": "mm"}
    frame = sample.to_dataframe("dvh")
    assert [*frame.columns] == ["curve", "dose", "volume", "standard error"]
    assert frame["curve"].tolist() == ["heart", "heart", "lung"]
    assert frame["standard error"].tolist()[2] == 2
    assert frame.attrs["units"] == {"dose": "Gy", "volume": "%", "standard error": "%"}
    with pytest.raises(InvalidInput, match="no table 'x'; it has count, fibers, dvh"):
        sample.to_dataframe("x")
    with pytest.raises(InvalidInput, match="no table"):
        Sample(()).to_dataframe()


def test_labeled_arrays_have_world_coordinates_units_and_errors():
    values = np.random.default_rng(0).random((8, 9, 10, 2))
    item = Slices(
        "dose", values, FLIPPED, "Gy", ("x", "y", "z", "gate"), error=0.1 * values, along={"start": ("gate", [0, 5])}
    )
    found = Sample((item,)).to_xarray()
    at = {"x": 10 - 2 * 3, "z": 7 + 1.5 * 4, "y": -5 + 3 * 2}  # voxel 3, 4, 2
    assert found["dose"].sel(at).values.tolist() == values[3, 4, 2].tolist()
    assert found["dose, standard error"].sel(at).values.tolist() == (0.1 * values[3, 4, 2]).tolist()
    assert found["x"].attrs["units"] == "mm"
    assert found["dose"].attrs["units"] == "Gy"
    assert found["start"].values.tolist() == [0, 5]
    turned = FLIPPED.copy()
    turned[0, 1] = 0.7
    oblique = Sample((Slices("dose", values[..., 0], turned),)).to_xarray()
    assert not oblique.coords
    np.testing.assert_array_equal(oblique["dose"].attrs["affine"].reshape(4, 4), turned)


def test_a_volume_is_taken_for_an_array_without_a_copy():
    one = Volume(array=np.arange(24.0).reshape(2, 3, 4), affine=np.eye(4), quantity=Quantity("fluence", "1/mm2"))
    for taken in (np.asarray(one), np.from_dlpack(one)):
        assert np.shares_memory(taken, one.array)
    assert one.__array_interface__["data"][0] == one.array.__array_interface__["data"][0]
    assert np.asarray(one, np.float32).dtype == np.float32
    assert one.__dlpack_device__() == (1, 0)
    assert one.to_xarray()["fluence"].shape == (2, 3, 4)

    class Made(GriddedArray, array="fresh"):
        """Its array is made when it is asked for, so that nobody would keep the memory of an interface."""

        @property
        def fresh(self):
            return np.ones(3)

    assert np.asarray(Made()).tolist() == [1, 1, 1]
    assert not hasattr(Made(), "__array_interface__")


# -- plots ------------------------------------------------------------------------------------------------------------


def test_everything_that_has_a_picture_is_plotted_with_units():
    x = np.linspace(0, 1, 5)
    items = (
        Slices("dose", marked(), FLIPPED, "Gy", style="heat"),
        Slices("label", marked().astype(int), FLIPPED, style="labels"),
        Lines("fibers", np.arange(12.0).reshape(4, 3), np.array([0, 4])), Fact("n", 1),
        Curves("dvh", ("dose", "Gy"), ("volume", "%"), (Line("heart", x, x, x),)),
        Matrix("count", np.eye(2), "ab", "ab"),
    )  # fmt: skip
    figure = Sample(items).plot()
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    for expected in ("dose (Gy)", "x (mm)", "volume (%)", "heart", "count", "b"):
        assert expected in texts
    with pytest.raises(InvalidInput, match="can be drawn"):
        Sample((Fact("n", 1),)).plot()


@pytest.mark.parametrize(
    ("module", "act", "extra"),
    [("matplotlib.pyplot", lambda one: one.plot(), "plot"), ("xarray", Gridded.to_xarray, "xarray")],
)
def test_a_package_that_is_absent_is_named_with_the_way_to_install_it(monkeypatch, module, act, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=rf"pip install 'napari-gpubio\[{extra}\]'"):
        act(Sample(()))
