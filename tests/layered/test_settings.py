"""Settings of a layered simulation and what is made of them: limits, areas, solid angles, tables, batches, keys."""

import dataclasses
import math

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info
from napari_gpubio.layered.kernels.layers.problem import SCALE, LayeredProblem, per_mm
from napari_gpubio.layered.settings import LayeredSettings, angle_centers, ring_area_mm2, solid_angle_sr
from napari_gpubio.optics.model import THICKEST_MM
from tests.layered.samples import ENDLESS_MM, GLASS, SKIN, TISSUE, medium, with_layer

BAD = [
    ({"photons": 0}, "photons is 0; it must be at least 1"),
    ({"photons": 2**32 + 1}, "photons is 4.29497e[+]09; it must be at most 4.29497e[+]09"),
    ({"seed": -1}, "seed is -1; it must be at least 0"),
    ({"seed": 2**64}, "seed is 1.84467e[+]19; it must be at most 1.84467e[+]19"),
    ({"dr_mm": 0.0}, "dr_mm is 0 mm; it must be greater than 0 mm"),
    ({"dz_mm": -0.1}, "dz_mm is -0.1 mm; it must be greater than 0 mm"),
    ({"radial_bins": 0}, "radial_bins is 0; it must be at least 1"),
    ({"depth_bins": 0}, "depth_bins is 0; it must be at least 1"),
    ({"angle_bins": 0}, "angle_bins is 0; it must be at least 1"),
    ({"absorption": True}, "absorption is True; give a text"),
    ({"absorption": "wrap"}, "absorption is 'wrap'; choose one of 'collect', 'drop', 'off'"),
    ({"roulette_threshold": -1e-9}, "roulette_threshold is -1e-09; it must be at least 0"),
    ({"roulette_threshold": 1.1}, "roulette_threshold is 1.1; it must be at most"),
    ({"batches": 1}, "batches is 1; it must be at least 2"),
    ({"batches": 257}, "batches is 257; it must be at most 256"),
]


@pytest.mark.parametrize(("numbers", "sentence"), BAD, ids=str)
def test_bad_settings_are_refused(numbers, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        LayeredSettings(**numbers)


@pytest.mark.parametrize(
    ("numbers", "bins"),
    [
        ({"radial_bins": 5000, "depth_bins": 5000}, "25,000,000"),
        ({"radial_bins": 100_000, "angle_bins": 200, "absorption": "off"}, "20,000,000"),
    ],
)
def test_a_grid_that_is_too_large_is_refused(numbers, bins):
    with pytest.raises(InvalidInput, match=f"the grid has {bins} bins; at most 16,777,216 are possible: take fewer"):
        LayeredSettings(**numbers)
    LayeredSettings(radial_bins=5000, depth_bins=5000, absorption="off")  # without a map its depths do not count


def test_every_setting_has_a_label_and_a_sentence():
    """The form and the command line are made of them."""
    infos = [param_info(field) for field in dataclasses.fields(LayeredSettings)]
    assert all(info.label and info.help.endswith(".") for info in infos)


@pytest.mark.parametrize("bins", [1, 2, 30, 1000])
def test_rings_make_a_disk_and_solid_angles_are_those_between_cones(bins):
    settings = LayeredSettings(dr_mm=0.3, radial_bins=7, angle_bins=bins)
    np.testing.assert_allclose(np.cumsum(ring_area_mm2(settings)), np.pi * (0.3 * np.arange(1, 8)) ** 2)
    edges = np.linspace(0, np.pi / 2, bins + 1)
    np.testing.assert_allclose(solid_angle_sr(settings), -2 * np.pi * np.diff(np.cos(edges)), rtol=1e-9)
    assert solid_angle_sr(settings).sum() == pytest.approx(2 * np.pi)
    np.testing.assert_allclose(angle_centers(settings), (edges[1:] + edges[:-1]) / 2)


def problem(layers=SKIN, **settings):
    return LayeredProblem(layers, LayeredSettings(**settings))


def test_the_table_of_layers():
    table = problem(medium(GLASS, (1.4, 0.5, 1.5, 0.8, 3.0), (1.3, 1.0, 3.0, -0.5, ENDLESS_MM))).layers
    expected = [
        [0.0, 0.0, 0.0, 0.0, 1.5, 1.0, 0.0, 0.0],
        [0.25, 0.5, 2.0, 0.8, 1.4, 3.0, 1.0, 3.0],
        [0.25, 0.25, 4.0, -0.5, 1.3, THICKEST_MM, 4.0, THICKEST_MM],
    ]
    np.testing.assert_array_equal(table, np.array(expected, np.float32))
    assert (per_mm(0.25), per_mm(math.inf)) == (np.float32(4), 0)


@pytest.mark.parametrize(
    ("layers", "first"), [(SKIN, 0), (medium(GLASS, TISSUE), 1), (medium(TISSUE, GLASS), 0), (medium(GLASS), 0)]
)
def test_photons_start_below_a_top_of_glass(layers, first):
    assert problem(layers).first_layer == first


def test_cosines_fall_from_1_to_0():
    cosines = problem(angle_bins=3).cosines
    np.testing.assert_array_equal(cosines, np.array([1, np.sqrt(0.75), 0.5, 0], np.float32))
    assert (np.diff(problem(angle_bins=10_000).cosines) <= 0).all()


@pytest.mark.parametrize("absorption", ["collect", "off"])
def test_a_tally_has_a_place_for_everything(absorption):
    p = problem(radial_bins=5, depth_bins=7, angle_bins=3, absorption=absorption)
    cells = 0 if absorption == "off" else 35
    assert (p.absorption_cells, p.angular_cells, p.tally_size) == (cells, 15, cells + 2 * 15 + 7 + 1)
    assert p.resident_bytes == 8 * p.tally_size * p.batch_count


def largest(name):
    (field,) = [field for field in dataclasses.fields(LayeredSettings) if field.name == name]
    return param_info(field).maximum


def test_tallies_cannot_overflow():
    """One entry fits in 32 bits, also of a survivor of Russian roulette, and all photons' entries in 63."""
    heaviest = max(1.0, 10 * largest("roulette_threshold"))
    assert heaviest * SCALE < 2**32
    assert largest("photons") * SCALE <= 2**63
    assert math.log2(SCALE) == int(math.log2(SCALE))  # multiplying by it rounds nothing


def test_the_key_knows_everything_but_the_number_of_photons():
    base = problem()
    more = LayeredProblem(base.medium, LayeredSettings(photons=5_000_000), base.batch_size)
    assert more.key == base.key
    others = [
        problem(seed=2), problem(dr_mm=0.11), problem(dz_mm=0.021), problem(radial_bins=201), problem(depth_bins=501),
        problem(angle_bins=31), problem(absorption="off"), problem(absorption="drop"), problem(roulette_threshold=1e-3),
        *(problem(dataclasses.replace(SKIN, **{side: 1.1})) for side in ("n_above", "n_below")),
        *(problem(with_layer(SKIN, 3, **{name: 0.5})) for name in ("mua_per_mm", "mus_per_mm", "g", "thickness_mm")),
        problem(with_layer(SKIN, 3, n=1.5)), problem(dataclasses.replace(SKIN, layers=SKIN.layers[:-1])),
        problem(dataclasses.replace(SKIN, layers=SKIN.layers[::-1])),
    ]  # fmt: skip
    assert len({p.key for p in [base, *others]}) == len(others) + 1


def test_names_change_no_photon():
    assert problem(dataclasses.replace(with_layer(SKIN, 0, name="horn"), name="skin")).key == problem().key
