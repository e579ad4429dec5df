"""Layers: what is refused and why, depths, and light that is reflected before it scatters."""

import math

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.model import MAX_LAYERS, LayeredMedium
from napari_gpubio.optics.model import THICKEST_MM, Layer
from tests.layered.samples import ENDLESS_MM, GLASS, SKIN, TISSUE, medium


def by_bouncing(n0, n1, n2):
    """Light that comes out on the upper side of a plate after any number of reflections in it, one after another."""
    r1, r2 = (((a - b) / (a + b)) ** 2 for a, b in ((n0, n1), (n1, n2)))
    out, inside = r1, 1 - r1
    for _ in range(200):
        inside *= r2
        out += inside * (1 - r1)
        inside *= r1
    return out


BAD_LAYERS = [
    ({"n": 0.99}, "n is 0.99; it must be at least 1"),
    ({"n": 11}, "n is 11; it must be at most 10"),
    ({"mua_per_mm": -0.1}, "mua_per_mm is -0.1 1/mm; it must be at least 0 1/mm"),
    ({"mus_per_mm": -1}, "mus_per_mm is -1 1/mm; it must be at least 0 1/mm"),
    ({"g": 1.01}, "g is 1.01; it must be at most 1"),
    ({"g": -1.01}, "g is -1.01; it must be at least -1"),
    (
        {"g": 1.0, "mus_per_mm": 1.0},
        "g is 1 in a layer that scatters: scattering would not change the direction; set mus_per_mm",
    ),
    ({"thickness_mm": 0.0}, r"thickness_mm is 0.0; it must be greater than 0 \(or infinite\)"),
    ({"thickness_mm": -1.0}, r"thickness_mm is -1.0; it must be greater than 0 \(or infinite\)"),
    ({"thickness_mm": math.nan}, r"thickness_mm is nan; it must be greater than 0 \(or infinite\)"),
    ({"thickness_mm": "3"}, "thickness_mm is '3'; "),
    ({"name": 7}, "name is 7; give a text"),
]


@pytest.mark.parametrize(("numbers", "sentence"), BAD_LAYERS, ids=str)
def test_a_bad_layer_is_refused(numbers, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Layer(**numbers)


def test_the_ends_of_the_ranges_are_allowed():
    Layer(g=1.0)
    Layer(g=-1.0, mus_per_mm=3.0)
    Layer(n=np.int64(1), mua_per_mm=np.float32(0.5), thickness_mm=1e-6)
    Layer(n=10, thickness_mm=math.inf)


def test_glass_and_endless_layers():
    assert Layer(n=1.5).is_glass
    assert not Layer(mua_per_mm=1e-9).is_glass
    assert not Layer(mus_per_mm=1e-9).is_glass
    thicknesses = (1e8, THICKEST_MM, math.inf)  # MCML's files say 1e8 cm
    assert [Layer(thickness_mm=thickness).is_endless for thickness in thicknesses] == [False, True, True]


ENDLESS = (*TISSUE[:4], ENDLESS_MM)
BAD_MEDIA = [
    ([], "there are 0 layers; give 1 to 100"),
    ([TISSUE] * (MAX_LAYERS + 1), "there are 101 layers; give 1 to 100"),
    ([ENDLESS, TISSUE], "a layer above the last one is infinitely thick; nothing below it"),
    (
        [TISSUE, (1.5, 0.0, 0.0, 0.0, ENDLESS_MM)],
        "the last layer is infinitely thick glass; light would travel forever in",
    ),
    # a random walk through a half-space comes back, but the mean number of its steps is infinite
    ([TISSUE, (1.4, 0.0, 2.0, 0.0, ENDLESS_MM)], "infinitely thick"),
]


@pytest.mark.parametrize(("rows", "sentence"), BAD_MEDIA, ids=[sentence for _, sentence in BAD_MEDIA])
def test_a_bad_medium_is_refused(rows, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        medium(*rows)


def test_100_layers_and_an_endless_last_one_are_allowed():
    assert len(medium(*[TISSUE] * MAX_LAYERS).layers) == 100
    assert medium(TISSUE, ENDLESS).layers[-1].is_endless
    assert LayeredMedium(layers=[Layer()]).layers == (Layer(),)


@pytest.mark.parametrize(
    ("n", "sentence"),
    [(0.5, "{} is 0.5; it must be at least 1"), (-1.0, "{} is -1.0; it must be at least 1")]
    + [(n, "n_{} is .*; give a finite number") for n in (math.nan, math.inf, "1")],
)
@pytest.mark.parametrize("side", ["above", "below"])
def test_bad_indices_around_are_refused(side, n, sentence):
    with pytest.raises(InvalidInput, match=sentence.format(side)):
        medium(TISSUE, **{f"n_{side}": n})


def test_tops_of_the_skin():
    expected = [0, 0.02, 0.1, 0.2, 0.28, 1.9, 2.1, 8.0]
    np.testing.assert_allclose(SKIN.tops_mm, expected, rtol=1e-12)
    np.testing.assert_array_equal(medium(TISSUE, ENDLESS).tops_mm, [0, 3, math.inf])


@pytest.mark.parametrize(
    ("depth", "layer"), [(0.0, 0), (0.019, 0), (0.03, 1), (0.15, 2), (1.0, 4), (1.95, 5), (7.9, 6), (8.1, 6), (1e9, 6)]
)
def test_the_layer_at_a_depth(depth, layer):
    assert SKIN.layer_at(depth) == layer


@pytest.mark.parametrize(("n", "expected"), [(1.0, 0.0), (1.33, 0.0200593), (1.5, 0.04), (1.53, 0.0438845)])
def test_specular_reflectance_of_tissue_in_air(n, expected):
    """MCML's own values for intralipid, Giovanelli's half-space and the skin."""
    assert medium((n, *TISSUE[1:]), TISSUE).specular_reflectance() == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("above", [1.0, 1.33, 1.5, 1.8])
@pytest.mark.parametrize("behind", [1.0, 1.37, 1.5, 2.0])
def test_specular_reflectance_of_glass_on_top(above, behind):
    glass_on_tissue = medium(GLASS, (behind, *TISSUE[1:]), n_above=above)
    assert glass_on_tissue.specular_reflectance() == pytest.approx(by_bouncing(above, 1.5, behind), abs=1e-12)


def test_specular_reflectance_does_not_look_below_the_first_scatterer():
    alone = medium(TISSUE).specular_reflectance()
    assert medium(TISSUE, GLASS, n_below=2.0).specular_reflectance() == alone == pytest.approx((0.4 / 2.4) ** 2)
    assert medium(TISSUE, n_above=1.4).specular_reflectance() == 0.0
