"""What a detector detects, from shells around optodes: closed forms, symmetry, and where shells lie."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.guide import _asymptotic_decay
from napari_gpubio.light.reciprocity import check_same, detected, shells_around, widest_between
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.theory import diffusion_coefficient_mm, fluence_infinite, fluence_semi_infinite
from tests.light.voxel_samples import grid_affine

TISSUE = Medium(mua_per_mm=0.01, mus_per_mm=10.0, g=0.9, n=1.37)
CLEAR = Medium(label=2, mua_per_mm=0.002, mus_per_mm=0.01, n=1.37)
D_TRANSPORT = TISSUE.mua_per_mm / float(_asymptotic_decay(np, TISSUE.mua_per_mm, TISSUE.musp_per_mm)) ** 2
LIGHT = LightSettings()
INTO = np.array([0.0, 0.0, 1e-6])


def block(shape=(40, 28, 16), voxel_mm=1.0, labels=None):
    labels = np.ones(shape, np.uint8) if labels is None else labels
    return Domain(labels=labels, affine=grid_affine(voxel_mm), media=(TISSUE, CLEAR))


def offsets(domain, place):
    voxels = np.stack(np.meshgrid(*map(np.arange, domain.shape), indexing="ij"), -1)
    return (voxels + 0.5) * domain.voxel_sizes_mm - place


def surface_fluence(domain, place):
    away = offsets(domain, place)
    return fluence_semi_infinite(np.hypot(away[..., 0], away[..., 1]), away[..., 2], TISSUE)


@pytest.mark.parametrize("voxel_mm", [1.0, 0.7])
def test_at_a_surface_every_shell_finds_the_fluence_at_the_detector(voxel_mm):
    shape = tuple(round(size / voxel_mm) for size in (46, 28, 16))
    domain, source, detector = block(shape, voxel_mm), np.array([11.0, 14.0, 0.0]), np.array([35.0, 14.0, 0.0])
    expected = fluence_semi_infinite(24.0, 1 / 1.01, TISSUE) / TISSUE.n**2
    expected *= D_TRANSPORT / diffusion_coefficient_mm(TISSUE)  # the grid has the D of transport
    fluences = [surface_fluence(domain, place) for place in (source, detector)]
    for pair in zip(*(shells_around(domain, LIGHT, place + INTO) for place in (source, detector)), strict=True):
        assert float(detected(*fluences, pair, np.multiply)) == pytest.approx(float(expected), rel=0.015)
        back = float(detected(*fluences[::-1], pair[::-1], np.multiply))
        assert back == pytest.approx(float(detected(*fluences, pair, np.multiply)), rel=1e-12)


def test_inside_of_tissue():
    domain = block((46, 24, 24))
    source, detector = np.array([11.5, 12.0, 12.0]), np.array([34.5, 12.0, 12.0])
    fluences = [fluence_infinite(np.linalg.norm(offsets(domain, p), axis=-1), TISSUE) for p in (source, detector)]
    pair = tuple(shells_around(domain, LIGHT, place)[0] for place in (source, detector))
    expected = fluence_infinite(23.0, TISSUE) / TISSUE.n**2 * D_TRANSPORT / diffusion_coefficient_mm(TISSUE)
    assert float(detected(*fluences, pair, np.multiply)) == pytest.approx(float(expected), rel=0.01)


def test_shells_end_before_clear_tissue_and_stay_in_the_tissue():
    labels = np.ones((40, 28, 16), np.uint8)
    labels[:, :, 9:12] = 2
    place = np.array([20.0, 14.0, 0.0]) + INTO
    free, bounded = shells_around(block(), LIGHT, place), shells_around(block(labels=labels), LIGHT, place)
    assert free[-1].outer_mm == pytest.approx(10 / 1.01)
    assert bounded[-1].outer_mm == pytest.approx(8.5, abs=0.1)
    for shell in bounded:
        assert (labels.ravel()[shell.voxels] == 1).all()
        depth = np.unravel_index(shell.voxels, labels.shape)[2]
        assert depth.max() < 9
    labels[:, :, 4:] = 2  # clear tissue within the narrowest: it lies there nevertheless
    assert len(shells_around(block(labels=labels), LIGHT, place)) == 1


def test_the_widest_shell_that_has_room():
    shells = shells_around(block(), LIGHT, np.array([20.0, 14.0, 0.0]) + INTO)
    assert widest_between(shells, 100.0) is shells[-1]
    assert widest_between(shells, 2 * shells[0].outer_mm) is shells[0]
    assert widest_between(shells, 1.0) is shells[0]


def test_coarse_voxels_and_wide_sources_have_wider_shells():
    place = np.array([20.0, 14.0, 0.0]) + INTO
    usual = shells_around(block(), LIGHT, place)[0].outer_mm
    assert shells_around(block((20, 14, 8), 2.0), LIGHT, place)[0].outer_mm == pytest.approx(8.0)
    assert shells_around(block(), LIGHT, place, 3.0)[0].outer_mm == pytest.approx(usual + 3.0)


def test_continuous_media_tell_what_is_clear():
    scattering = np.full((40, 28, 16), 10.0)
    scattering[:, :, 9:] = 0.05
    domain = dataclasses.replace(block(), mus_per_mm=scattering)
    place = np.array([20.0, 14.0, 0.0]) + INTO
    assert shells_around(domain, LIGHT, place)[-1].outer_mm == pytest.approx(8.5, abs=0.1)


def test_an_optode_at_clear_tissue_is_refused():
    labels = np.full((40, 28, 16), 2, np.uint8)
    with pytest.raises(InvalidInput, match=r"at \(20, 14, 0\) mm is at label 2, whose reduced scattering is 0.01 1/mm"):
        shells_around(block(labels=labels), LIGHT, np.array([20.0, 14.0, 0.0]) + INTO)


def test_g_and_n_by_voxel_are_part_of_the_tissue():
    domain, place = block(), np.array([20.0, 14.0, 0.0]) + INTO
    volumes = {"g": np.full(domain.shape, 0.9, np.float32), "n": np.full(domain.shape, 1.37, np.float32)}
    by_voxel = dataclasses.replace(domain, **volumes)
    outer = [[shell.outer_mm for shell in shells_around(one, LIGHT, place)] for one in (domain, by_voxel)]
    assert outer[1] == pytest.approx(outer[0])
    volumes["g"][29:] = 0.9995  # which leaves hardly any reduced scattering
    ahead = dataclasses.replace(domain, g=volumes["g"])
    assert shells_around(ahead, LIGHT, place)[-1].outer_mm == pytest.approx(8.5, abs=0.1)
    check_same(by_voxel, by_voxel)
    table = TabulatedPhaseFunction(cosines=np.linspace(-1.0, 1.0, 9))
    for other in (domain, ahead, dataclasses.replace(domain, phase_function=table)):
        with pytest.raises(InvalidInput, match="different optical properties"):
            check_same(by_voxel, other)
