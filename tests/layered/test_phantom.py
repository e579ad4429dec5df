"""Layers as voxels: the same layers in the same place, and the same light in them."""

import math

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.beams import FlatBeam, GaussianBeam
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.presets import preset
from napari_gpubio.light.benchmarks import benchmark
from napari_gpubio.light.layered_phantom import CYCLIC_SIDES, common_voxel_mm, plan_phantom, voxel_case, voxel_phantom
from napari_gpubio.optics.model import Layer

SKIN = preset("seven-layer skin at 600 nm").medium


def stack(*thicknesses, **more):
    layers = [Layer(n=1.4, mua_per_mm=0.1, mus_per_mm=1.0, thickness_mm=t, name=f"L{t:g}") for t in thicknesses]
    return LayeredMedium(layers=tuple(layers), **more)


def test_the_skin_with_cyclic_sides_is_the_benchmark():
    case = benchmark("skin7")
    made = voxel_phantom(SKIN, voxel_mm=0.02, width_mm=0.16, axis_mm=(0.08, 0.08))
    assert np.array_equal(made.labels, case.domain.labels)
    assert np.allclose(made.affine, case.domain.affine, atol=1e-12)
    assert made.outside_n == case.domain.outside_n
    assert made.notes == ()
    for ours, theirs in zip(made.media, case.domain.media, strict=True):
        assert (ours.label, ours.name, ours.g, ours.n) == (theirs.label, theirs.name, theirs.g, theirs.n)
        assert (ours.mua_per_mm, ours.mus_per_mm) == pytest.approx((theirs.mua_per_mm, theirs.mus_per_mm), rel=1e-12)
    ready = voxel_case(made, cyclic=True, axis_mm=(0.08, 0.08))
    assert ready.settings.faces == case.settings.faces == CYCLIC_SIDES
    assert np.allclose(ready.source.position_mm, case.source.position_mm)
    assert ready.source.direction == case.source.direction


def test_the_beam_enters_at_the_worlds_origin():
    domain = voxel_phantom(stack(1.0, 2.0), voxel_mm=0.5, width_mm=2.5)
    assert domain.shape == (5, 5, 6)
    assert np.allclose(domain.grid_to_world([0, 0, 0]), [-1.25, -1.25, 0.0])
    assert np.allclose(domain.grid_to_world([2.5, 2.5, 3.0]), [1.25, 1.25, 3.0])
    assert (np.asarray(domain.labels)[:, :, :2] == 1).all()
    assert (np.asarray(domain.labels)[:, :, 2:] == 2).all()
    flat = voxel_case(domain, beam=FlatBeam(radius_mm=0.7))
    assert (flat.source.kind, flat.source.radius_mm, flat.source.position_mm) == ("disk", 0.7, (0.0, 0.0, 0.0))
    assert voxel_case(domain, beam=GaussianBeam(radius_mm=2.0)).source.kind == "gaussian"
    assert voxel_case(domain).source.kind == "pencil"
    wide = voxel_phantom(stack(0.02, 0.08), voxel_mm=0.02, across_mm=0.1, width_mm=1.0)
    assert wide.shape == (10, 10, 5)
    assert np.allclose(wide.voxel_sizes_mm, [0.1, 0.1, 0.02])


def test_what_had_to_be_changed_is_noted():
    domain = voxel_phantom(stack(0.1, 0.26, 1.0), voxel_mm=0.1, width_mm=1.0)
    assert domain.notes == ("Thicknesses were rounded to whole voxels of 0.1 mm: L0.26 0.26 → 0.3 mm.",)
    # a border is moved to the nearest boundary, whatever became of those above: rounding does not add up
    many = plan_phantom(stack(*[0.26] * 10), voxel_mm=0.1, width_mm=1.0)
    assert sum(many.depths) == 26
    assert "L0.26 0.26 → 0.2 mm" in many.notes[0]
    narrow = plan_phantom(stack(1.0), voxel_mm=0.25, width_mm=1.1)
    assert (narrow.shape, narrow.notes) == ((4, 4, 4), ("The width was rounded from 1.1 to 1 mm.",))
    water = voxel_phantom(stack(1.0, n_above=1.0, n_below=1.33), voxel_mm=0.5, width_mm=1.0)
    assert water.outside_n == 1.0
    assert "Below the layers n is 1.33; around the phantom it is 1" in water.notes[0]
    assert not voxel_phantom(stack(1.0, n_above=1.33, n_below=1.33), voxel_mm=0.5, width_mm=1.0).notes


def test_an_endless_layer_is_cut_and_that_is_noted():
    domain = voxel_phantom(stack(1.0, math.inf), voxel_mm=0.5, width_mm=4.0)
    assert domain.shape[2] == 10
    assert domain.notes == ("The last layer is infinitely thick and ends at 5 mm here.",)
    assert plan_phantom(stack(1.0, math.inf), voxel_mm=0.3, width_mm=4.2).notes[1].endswith("ends at 5.1 mm here.")
    assert voxel_phantom(stack(1.0, math.inf), voxel_mm=0.5, width_mm=4.0, depth_mm=3.0).shape[2] == 6
    with pytest.raises(InvalidInput, match=r"ends at 1 mm, above the last layer"):
        plan_phantom(stack(1.0, math.inf), voxel_mm=0.5, width_mm=4.0, depth_mm=1.0)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"voxel_mm": 0.1, "width_mm": 1.0}, r"stratum corneum is 0.02 mm thick .* voxels of 0.02 mm fit every layer"),
        ({"voxel_mm": 0.0, "width_mm": 1.0}, r"voxel_mm is 0.0; it must be greater than 0 mm"),
        ({"voxel_mm": 0.02, "width_mm": -1.0}, r"width_mm is -1.0"),
        ({"voxel_mm": 0.02, "width_mm": math.nan}, r"width_mm is nan"),
        ({"voxel_mm": 0.02, "width_mm": 1.0, "across_mm": math.inf}, r"across_mm is inf"),
        ({"voxel_mm": 0.02, "width_mm": 100.0}, r"would have 1e\+10 voxels; at most 268,435,456"),
    ],
)
def test_sizes_that_do_not_fit_are_a_sentence(sizes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        voxel_phantom(SKIN, **sizes)


def test_the_largest_voxels_that_fit():
    assert common_voxel_mm(SKIN) == 0.02
    assert common_voxel_mm(stack(0.3, 0.45, math.inf)) == 0.15
    assert common_voxel_mm(stack(7.0)) == 7.0
    assert common_voxel_mm(stack(math.inf)) == 1.0
    assert plan_phantom(SKIN, voxel_mm=common_voxel_mm(SKIN), width_mm=1.0).notes == ()
