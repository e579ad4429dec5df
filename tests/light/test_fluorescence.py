"""Fluorescence: two coupled runs against diffusion theory, their energy balance, their errors, stop, and bad input."""

import dataclasses
import functools
import itertools
import threading

import numpy as np
import pytest

from napari_gpubio import light, optics
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from tests.light.voxel_samples import CYCLIC_SIDES, check_z, grid_affine, make_domain

SIZE, VOXEL = 25, 1.5  # mm
MIDDLE = SIZE * VOXEL / 2
MUA_X, MUA_M, MUS = 0.05, 0.03, 1.0  # 1/mm
DYE = light.Fluorophore(mua_per_mm={1: 0.01, 2: 0.01, 3: 0.01, 4: 0.01}, quantum_yield=0.5)


def radius_mm(parts=1):
    """Distance from the middle, of voxels or of so many parts of their edges."""
    at = (np.arange(parts * SIZE) + 0.5) * (VOXEL / parts) - MIDDLE
    return np.sqrt(at[:, None, None] ** 2 + at[None, :, None] ** 2 + at[None, None] ** 2)


def shells(mua):
    """A homogeneous cube with labels by distance from its middle: a label's mean fluence has an error."""
    labels = np.digitize(radius_mm(), [4.0, 7.0, 11.0]) + 1
    return make_domain(
        labels,
        *(optics.Medium(label=label, mua_per_mm=mua, mus_per_mm=MUS, n=1.0) for label in range(1, 5)),
        voxel_mm=VOXEL,
    )


POINT = optics.Isotropic(position_mm=(MIDDLE,) * 3)


@functools.cache
def in_shells(photons=16_000, seed=3):
    settings = light.LightSettings(photons=photons, seed=seed, refraction=False)
    return light.fluorescence(shells(MUA_X), shells(MUA_M), POINT, DYE, settings, device="cpu")


def test_a_point_source_in_a_wide_medium_follows_diffusion_theory():
    """The emission fluence is the convolution of two Green functions of diffusion.

    With D grad^2 Phi - mu_a Phi = -q and q = eta mu_f exp(-k_x r) / (4 pi D_x r), it is eta mu_f / (D_x D_m)
    (e^(-k_x r) - e^(-k_m r)) / (4 pi r (k_m^2 - k_x^2)), since grad^2 f = k^2 f - delta for f = e^(-kr) / (4 pi r).
    """
    result, r = in_shells(), radius_mm(4)
    d_x, d_m = (1 / (3 * (mua + MUS)) for mua in (MUA_X, MUA_M))
    k_x, k_m = np.sqrt(MUA_X / d_x), np.sqrt(MUA_M / d_m)
    whole = 0.5 * 0.01 / (d_x * d_m) * (np.exp(-k_x * r) - np.exp(-k_m * r)) / (4 * np.pi * r * (k_m**2 - k_x**2))
    whole = whole.reshape(SIZE, 4, SIZE, 4, SIZE, 4).mean(axis=(1, 3, 5))
    for label in (2, 3):  # 4 to 11 mm, and the walls are 19 mm away
        expected = whole[result.emission_domain.labels == label].mean()
        found = result.mean_fluence[label]
        assert abs(found.value / expected - 1.0) < 0.03 + 4 * found.error / expected, label


def test_energy_is_conserved_from_excitation_to_emission():
    result = in_shells()
    absorbed = sum(0.01 / MUA_X * part.value for part in _labels_excited(result))
    assert result.absorbed_by_fluorophore.value == pytest.approx(absorbed, rel=1e-5)
    assert result.emitted.value == pytest.approx(0.5 * absorbed, rel=1e-5)
    assert sum(part.value for part in result.energy.values()) == pytest.approx(result.emitted.value, rel=1e-5)
    assert sum(part.value for part in result.absorbed.values()) == pytest.approx(result.energy["absorbed"].value)
    emitted = result.emission_density.sum() * result.emission_domain.voxel_volume_mm3
    assert emitted == pytest.approx(result.emitted.value, rel=1e-4)
    assert sum(part.value for part in result.excitation_energy.values()) == pytest.approx(1.0, abs=1e-5)
    assert result.launched == 16_000
    assert result.complete


def _labels_excited(result):
    domain, volume = result.excitation_domain, result.excitation_domain.voxel_volume_mm3
    sums = np.bincount(domain.labels.ravel(), weights=result.excitation_fluence.ravel())
    return [optics.Estimate(MUA_X * sums[label] * volume, 0.0) for label in domain.labels_present]


def slab(mua, mus=1.0, shape=(6, 6, 6)):
    return make_domain(shape, optics.Medium(label=1, mua_per_mm=mua, mus_per_mm=mus, n=1.0))


BEAM = optics.Pencil(position_mm=(3.0, 3.0, 0.0))
OPTODES = (optics.Detector(position_mm=(3, 3, 0), radius_mm=3.0), optics.Detector(position_mm=(3, 3, 6), radius_mm=3.0))


def in_slab(photons=1600, seed=1, dye=None, batches=8, device="cpu"):
    settings = light.LightSettings(photons=photons, seed=seed, refraction=False, faces=CYCLIC_SIDES, batches=batches)
    dye = dye or light.Fluorophore(mua_per_mm={1: 0.08})
    return light.fluorescence(slab(0.1), slab(0.02), BEAM, dye, settings, detectors=OPTODES, device=device)


@pytest.mark.long
def test_errors_are_those_of_both_runs_together():
    """Over seeds, results spread as their errors say, whether the excitation's photons or the emission's matter."""
    seeds = 14
    found = [in_slab(480, seed) for seed in range(seeds)]
    for read in (
        lambda r: r.emitted,
        lambda r: r.energy["escaped"],
        lambda r: r.mean_fluence[1],
        lambda r: r.detected[1],
    ):
        values, errors = np.array([read(result) for result in found]).T
        ratio = np.sqrt((errors**2).mean()) / values.std(ddof=1)
        check_z(np.log(ratio), np.sqrt(1 / (2 * (seeds - 1)) + 1 / (2 * seeds * 7)), 3.0)


def test_emission_counts_by_emission_photons_at_detectors():
    """Detected weights are parts of what escaped; a fluorophore that emits half as much is seen half as bright."""
    result = in_slab()
    assert 0 < sum(part.value for part in result.detected) <= result.energy["escaped"].value
    assert all(part.error > 0 for part in (*result.detected, *result.excitation_detected))
    half = in_slab(dye=light.Fluorophore(mua_per_mm={1: 0.08}, quantum_yield=0.5))
    assert half.detected[0].value == pytest.approx(result.detected[0].value / 2)
    assert half.absorbed_by_fluorophore == result.absorbed_by_fluorophore
    assert result.interval_factor() == pytest.approx(2.3646, abs=1e-4)


def test_a_fluorophore_voxel_by_voxel():
    volume = np.zeros((6, 6, 6))
    volume[2, 3, 4] = 0.05
    result = in_slab(dye=light.Fluorophore(mua_per_mm=volume))
    assert np.count_nonzero(result.emission_density) == 1
    assert np.unravel_index(result.fluence.argmax(), volume.shape) == (2, 3, 4)
    assert result.relative_error[2, 3, 4] < 0.5


def test_light_that_never_reaches_the_fluorophore_emits_nothing():
    """One photon a group or two, and a fluorophore in one voxel of a corner."""
    volume = np.zeros((6, 6, 6))
    volume[0, 0, 5] = 1e-4
    result = in_slab(16, dye=light.Fluorophore(mua_per_mm=volume))
    assert result.complete
    assert result.emitted.value >= 0


def test_steps_have_previews_and_stopping_keeps_what_is_done():
    stop, steps, previews = threading.Event(), [], []
    settings = light.LightSettings(photons=1600, refraction=False, batches=8)
    dye = light.Fluorophore(mua_per_mm={1: 0.08})
    work = light.fluorescence_steps(slab(0.1), slab(0.02), BEAM, dye, settings, device="cpu", stop=stop)

    def watch(step):
        steps.append(step)
        if step.preview is not None:
            previews.append(step.preview)
            if step.preview.groups == 3:
                stop.set()

    result = drive(work, watch)
    assert [preview.groups for preview in previews] == [2, 3]
    assert all(a.done <= b.done for a, b in itertools.pairwise(steps))
    assert (result.groups, result.launched, result.complete) == (3, 600, False)
    assert np.isfinite(result.emitted.error)
    np.testing.assert_array_equal(result.fluence, previews[-1].fluence)
    stop.set()
    nothing = drive(light.fluorescence_steps(slab(0.1), slab(0.02), BEAM, dye, settings, device="cpu", stop=stop))
    assert (nothing.groups, nothing.complete) == (0, False)
    assert np.isnan(nothing.emitted.error)


def test_the_same_seed_gives_the_same_bits_and_groups_have_photons_of_their_own():
    one, two, other = (in_slab(320, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.fluence, two.fluence)
    assert one.emitted == two.emitted != other.emitted
    assert len(set(one.parameters["seeds"])) == 16


def test_the_gpu_backend_gives_the_same_bits(one_gpu):
    """Through g++: the emission starts in a volume on both."""
    results = [in_slab(160, device=device) for device in ("cpu", "cuda")]
    np.testing.assert_array_equal(results[0].fluence, results[1].fluence)
    assert results[0].energy == results[1].energy


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"dye": light.Fluorophore(mua_per_mm={1: 0.2})},
            "absorbs 0.2 /mm in a voxel of label 1 where all absorption is 0.1",
        ),
        ({"dye": light.Fluorophore(mua_per_mm={2: 0.1})}, "is in label 2, which does not occur"),
        (
            {"dye": light.Fluorophore(mua_per_mm=np.ones((2, 2, 2)))},
            r"has shape \(2, 2, 2\) and the domain \(6, 6, 6\)",
        ),
        ({"batches": 4}, "batches is 4; give at least 8 groups"),
        ({"photons": 15}, "there are 15 photons for 8 groups"),
    ],
)
def test_bad_input_is_refused(changes, words):
    with pytest.raises(InvalidInput, match=words):
        in_slab(**changes)


def test_domains_and_gates_that_do_not_fit_are_refused():
    dye, settings = light.Fluorophore(mua_per_mm={1: 0.01}), light.LightSettings(photons=100)
    with pytest.raises(InvalidInput, match="other labels or grids"):
        light.fluorescence(slab(0.1), slab(0.1, shape=(6, 6, 7)), BEAM, dye, settings, device="cpu")
    moved = dataclasses.replace(slab(0.1), affine=grid_affine(2.0))
    with pytest.raises(InvalidInput, match="other labels or grids"):
        light.fluorescence(slab(0.1), moved, BEAM, dye, settings, device="cpu")
    gates = dataclasses.replace(settings, time_gates_ns=(0, 1, 2))
    with pytest.raises(InvalidInput, match="steady light: give one gate, from 0"):
        light.fluorescence(slab(0.1), slab(0.1), BEAM, dye, gates, device="cpu")
    with pytest.raises(InvalidInput, match="finite, nowhere negative and somewhere positive"):
        light.Fluorophore(mua_per_mm={1: 0.0})
