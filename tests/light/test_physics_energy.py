"""Energy: nothing is lost, roulette is fair, errors are what the spread of many runs says, and sums never stall."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core.device import choose_device
from napari_gpubio.light.kernels.voxels import cpu
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import VoxelTally, assemble
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.trust import cavity_light, closed_within, findings
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Isotropic, Pencil, Planar
from tests.light.voxel_samples import CYCLIC_SIDES, MAX_Z, TISSUE, layers, make_domain

MEDIUM_A = Medium(label=1, mua_per_mm=0.005, mus_per_mm=1.0, g=0.01, n=1.37)  # of MCX's cubes
MEDIUM_B = Medium(label=2, mua_per_mm=0.002, mus_per_mm=5.0, g=0.9, n=1.0)
# Seven layers of skin at 600 nm (Meglinski and Matcher 2001): mua and mus in 1/mm, g, n, voxels of 20 um; and what each
# absorbs of a launched photon, with its error, by 8e8 photons of CPU-MCML with a Mersenne Twister.
SKIN = (
    (0.02, 100.0, 0.9, 1.53, 1, 0.00252812, 1.3e-7),
    (0.015, 40.0, 0.85, 1.34, 4, 0.00588612, 1.3e-7),
    (0.07, 30.0, 0.8, 1.4, 5, 0.0350800, 1.9e-6),
    (0.1, 35.0, 0.9, 1.39, 4, 0.0363525, 1.6e-6),
    (0.07, 20.0, 0.76, 1.4, 81, 0.2500125, 1.25e-5),
    (0.1, 35.0, 0.95, 1.39, 10, 0.01588625, 1.8e-6),
    (0.03, 15.0, 0.8, 1.44, 295, 0.0445363, 4.2e-6),
)
SKIN_SPECULAR, SKIN_ABSORBED = 0.0438845, 0.390300


def run(device, domain, source, **settings):
    return simulate(domain, source, LightSettings(**{"photons": 16_000, **settings}), device=device)


def check_balance(energy):
    assert energy.total == pytest.approx(1.0, abs=1e-6)
    if energy.roulette.error > 0:
        assert abs(energy.roulette.z_score(0.0)) < MAX_Z


# -- published fractions ----------------------------------------------------------------------------------------------


def of_entered(result):
    """Absorbed fraction of the light that entered."""
    entered = result.energy.entered
    return Estimate(result.energy.absorbed.value / entered, result.energy.absorbed.error / entered)


@pytest.mark.parametrize(("name", "absorbed", "photons"), [
    ("cube60", 0.17675, 40_000), ("cube60b", 0.2719, 20_000), ("cubesph60b", 0.2698, 20_000),
    ("planar", 0.2546, 20_000),
])  # fmt: skip
def test_absorption_of_the_published_cubes(device, name, absorbed, photons):
    """MCX's own benchmarks with a million photons of another program; it knows no specular loss."""
    offsets = np.arange(60) - 29.5
    ball = (offsets[:, None, None] ** 2 + offsets[:, None] ** 2 + offsets**2) <= 15.0**2
    labels = np.where(ball, 2, 1) if name == "cubesph60b" else np.ones((60, 60, 60), int)
    source = Pencil(position_mm=(29, 29, 0))
    if name == "planar":
        source = Planar(position_mm=(30, 30, -10), width_mm=40.0, height_mm=40.0)
    domain = make_domain(labels, MEDIUM_A, MEDIUM_B)
    result = run(device, domain, source, photons=photons, specular=False, refraction=name != "cube60")
    assert abs(of_entered(result).z_score(absorbed, 4e-4)) < MAX_Z
    check_balance(result.energy)


@pytest.mark.parametrize(("inclusion", "absorbed"), [
    (None, 0.4705), ((0.1, 10.0, 0.9, 1.37), 0.4723), ((0.02, 10.0, 0.9, 6.85), 0.4713),
])  # fmt: skip
def test_absorption_of_the_published_blocks(device, inclusion, absorbed):
    """Of 100 mm, with an inclusion that absorbs or refracts (Yuan et al. 2018), up to 5 ns."""
    labels = np.ones((100, 100, 100), np.uint8)
    media = [Medium(label=1, mua_per_mm=0.02, mus_per_mm=10.0, g=0.9, n=1.37)]
    if inclusion:
        labels[30:70, 30:70, 10:50] = 2
        media.append(Medium(label=2, **dict(zip(("mua_per_mm", "mus_per_mm", "g", "n"), inclusion, strict=True))))
    domain = make_domain(labels, *media)
    result = run(device, domain, Pencil(position_mm=(50, 50, 0)), photons=4000, specular=False)
    assert abs(of_entered(result).z_score(absorbed, 5e-4)) < MAX_Z
    check_balance(result.energy)


def test_absorption_of_every_layer_of_skin(device):
    """A published layered reference, as voxels of 20 um with cyclic sides, specular loss included."""
    labels = np.repeat(np.arange(1, 8), [layer[4] for layer in SKIN])
    media = (
        Medium(label=label, mua_per_mm=mua, mus_per_mm=mus, g=g, n=n)
        for label, (mua, mus, g, n, *_) in enumerate(SKIN, 1)
    )
    domain = make_domain(np.tile(labels, (8, 8, 1)), *media, voxel_mm=0.02)
    result = run(device, domain, Pencil(position_mm=(0.081, 0.079, 0.0)), photons=6000, faces=CYCLIC_SIDES)
    assert result.energy.specular.value == pytest.approx(SKIN_SPECULAR, abs=1e-6)
    assert abs(result.energy.absorbed.z_score(SKIN_ABSORBED, 1.5e-5)) < MAX_Z
    for label, layer in enumerate(SKIN, 1):
        assert abs(result.absorbed[label].z_score(*layer[5:])) < MAX_Z, label
    check_balance(result.energy)


@pytest.mark.parametrize("mua", [100.0, 1000.0, 5000.0])
def test_strong_absorbers_and_few_photons_are_no_broken_balance(device, mua):
    """What is absorbed is rounded to quanta of path, each mu_a times as large in energy."""
    medium = dataclasses.replace(MEDIUM_A, mua_per_mm=mua)
    for seed in range(10):
        result = run(device, make_domain((8, 8, 8), medium), Pencil(position_mm=(4.1, 4.2, 0)), photons=100, seed=seed)
        assert abs(result.energy.total - 1) < closed_within(result)
        assert "violated" not in " ".join(finding.sentence for finding in findings(result))
    broken = dataclasses.replace(result.energy, escaped=Estimate(result.energy.escaped.value + 0.01, 0.0))
    assert findings(dataclasses.replace(result, energy=broken))[0].status == "error"


def test_light_that_cavities_take_is_reported(device):
    """A cavity in the middle of a ball around an isotropic source near it; the share as the map of escapes has it."""
    labels = np.ones((15, 15, 15), np.uint8)
    labels[6:9, 6:9, 6:9] = 0
    medium = Medium(label=1, mua_per_mm=0.02, mus_per_mm=10.0, g=0.9, n=1.37)
    source = Isotropic(position_mm=(7.5, 7.5, 11.5))
    domain = make_domain(labels, medium)
    some = {"photons": 6000}
    exact = cavity_light(run(device, domain, source, exit_map=True, **some))
    estimated = cavity_light(run(device, domain, source, **some))
    assert exact.volume_mm3 == estimated.volume_mm3 == pytest.approx(27.0)
    assert exact.share > 0.02
    assert estimated.share == pytest.approx(exact.share, rel=0.25)
    sentences = " ".join(finding.sentence for finding in findings(run(device, domain, source, **some)))
    assert "encloses 27 mm³ of label 0" in sentences
    open_to_air = run(device, domain.with_air_in_cavities(), source, exit_map=True, **some)
    assert cavity_light(open_to_air).volume_mm3 == 0.0
    check_balance(open_to_air.energy)


# -- roulette ---------------------------------------------------------------------------------------------------------

STRONG = dataclasses.replace(TISSUE, mua_per_mm=0.3)


@pytest.mark.parametrize("threshold", [0.0, 1e-4, 0.1, 0.5, 1.0])
def test_roulette_is_fair(device, threshold):
    """At any threshold: a balance of 1, what it gives it takes, and the same absorption in every layer."""
    domain = layers((12, 12, 12), *(dataclasses.replace(STRONG, label=label) for label in (1, 2, 3)))
    source = Pencil(position_mm=(6.1, 6.2, 0.0))
    expected = run(device, domain, source, roulette_threshold=0.0, photons=32_000, seed=2)
    found = run(device, domain, source, roulette_threshold=threshold, photons=32_000, seed=3)
    check_balance(found.energy)
    assert (found.energy.roulette.error > 0) == (threshold > 0)
    for label in (1, 2, 3):
        assert abs(found.absorbed[label].z_score(*expected.absorbed[label])) < MAX_Z
    assert abs(found.energy.escaped.z_score(*expected.energy.escaped)) < MAX_Z
    assert found.fluence.min() >= 0.0
    assert found.fluence.max() < 10 * expected.fluence.max()  # a sum that went below zero would be huge


def test_roulette_leaves_time_gates_and_detours_alone(device):
    """With truncation, mirrors and a first gate that begins late."""
    domain = make_domain((6, 6, 6), STRONG)
    source = Isotropic(position_mm=(3.1, 3.2, 3.3))
    more = {"faces": ("mirror",) * 4 + ("default",) * 2, "time_gates_ns": (0.005, 0.01, 0.03)}
    results = [
        run(device, domain, source, roulette_threshold=threshold, seed=n, **more)
        for n, threshold in enumerate((0.0, 0.5))
    ]
    for result in results:
        check_balance(result.energy)
        assert result.energy.truncated.value > 0.01
    for name in ("absorbed", "escaped", "truncated"):
        a, b = (getattr(result.energy, name) for result in results)
        assert abs(a.z_score(*b)) < MAX_Z
    assert abs(results[0].absorbed[1].z_score(*results[1].absorbed[1])) < MAX_Z


# -- the books --------------------------------------------------------------------------------------------------------


def test_absorption_is_mua_times_fluence(device):
    """The energy tally's sum, the labels' and that of the volume are the same."""
    domain = layers((8, 8, 8), STRONG, dataclasses.replace(TISSUE, label=2), voxel_mm=(0.5, 1.0, 0.7))
    result = run(device, domain, Pencil(position_mm=(2.1, 4.2, 0.0)))
    by_label = sum(part.value for part in result.absorbed.values())
    assert by_label == pytest.approx(result.energy.absorbed.value, rel=1e-9)
    in_volume = result.absorbed_density.sum(dtype=float) * domain.voxel_volume_mm3
    assert in_volume == pytest.approx(by_label, rel=1e-6)


def test_the_map_of_escaping_light_is_what_escaped(device):
    domain = make_domain((8, 8, 8), voxel_mm=(0.5, 1.0, 0.7))
    result = run(device, domain, Pencil(position_mm=(2.1, 4.2, 0.0)), exit_map=True)
    assert result.escaped_weight.sum(dtype=float) == pytest.approx(result.energy.escaped.value, rel=1e-6)
    assert not result.escaped_weight[1:-1, 1:-1, 1:-1].any()
    reflectance = result.diffuse_reflectance()
    assert reflectance[3, 3, 0] == pytest.approx(result.escaped_weight[3, 3, 0] / 0.5)


def test_half_buffers_are_even_and_odd_photons(device):
    """They make up the whole, and each is an estimate of its own."""
    domain, source = make_domain((8, 8, 8)), Pencil(position_mm=(4.1, 4.2, 0.0))
    whole, halved = (run(device, domain, source, halves=halves, seed=2) for halves in (False, True))
    np.testing.assert_array_equal(halved.state.sums.reshape(2, -1).sum(axis=0), whole.state.sums)
    np.testing.assert_array_equal(halved.gates, whole.gates)
    np.testing.assert_allclose(halved.half_fluences.mean(axis=0), whole.gates, rtol=1e-6)
    even, odd = halved.half_fluences[..., 0]
    z = (even - odd) / (2 * whole.fluence_error)
    assert (z**2).mean() == pytest.approx(1.15, abs=0.2)  # 16 batches: Student's t has a variance of 1.15


# -- standard errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("photons", [1600, 1700])
def test_errors_are_the_spread_of_independent_runs(device, photons):
    """F test, voxel by voxel, of the spread of 30 seeds against the errors that they report.

    Also where the batches do not take up all photons.
    """
    seeds = 30
    domain = layers((5, 5, 4), TISSUE, dataclasses.replace(TISSUE, label=2))
    source = Pencil(position_mm=(2.6, 2.4, 0.0))
    gates = {"time_gates_ns": (0.0, 0.03, 5.0), "batches": 16}
    results = [run(device, domain, source, photons=photons, seed=seed, **gates) for seed in range(seeds)]
    batches = photons // (photons // 16)
    for values, errors in (
        ([r.fluence for r in results], [r.fluence_error for r in results]),
        ([r.gates for r in results], [r.gates_error for r in results]),
        ([r.absorbed[2].value for r in results], [r.absorbed[2].error for r in results]),
        ([r.energy.escaped.value for r in results], [r.energy.escaped.error for r in results]),
    ):
        spread = np.var(np.array(values, float), axis=0, ddof=1)
        variance = np.mean(np.square(np.array(errors, float)), axis=0)
        well_lit = np.sqrt(variance) < 0.15 * np.mean(values, axis=0)  # where batches are normally distributed
        assert well_lit.sum() > 0.15 * well_lit.size
        ratio = (spread[well_lit] / variance[well_lit]) if well_lit.ndim else spread / variance
        low, high = stats.f.ppf([1e-5, 1 - 1e-5], seeds - 1, seeds * (batches - 1))
        assert low < ratio.min() <= ratio.max() < high
        assert 0.6 < ratio.mean() < 1.5


def test_errors_shrink_with_the_root_of_photons(device):
    domain, source = make_domain((6, 6, 6)), Pencil(position_mm=(3.1, 3.2, 0.0))
    few, many = (run(device, domain, source, photons=photons) for photons in (4000, 64_000))
    ratio = np.sqrt((few.fluence_error**2).mean() / (many.fluence_error**2).mean())
    assert ratio == pytest.approx(4.0, rel=0.15)
    z = (few.fluence - many.fluence) / np.hypot(few.fluence_error, many.fluence_error)
    assert (z**2).mean() < 1.5


# -- a billion photons ------------------------------------------------------------------------------------------------

BILLION, LAST = 1_000_000_000, 1000


def after_a_billion(device, count):
    """Tallies of the photons from a billion on, added to those of a billion that are put in their place."""
    problem = VoxelProblem(
        make_domain((5, 5, 5)), Pencil(position_mm=(2.6, 2.4, 0.0)), LightSettings(photons=BILLION + count), (), BILLION
    )
    before = VoxelTally.empty(problem)
    typical = cpu.Run(problem)
    typical.advance(0, LAST)
    factor = np.uint64(BILLION // LAST)
    before.sums = typical.snapshot().open[0].path * factor
    energy = typical.snapshot().open[0].energy * factor
    before.batches[0] = np.concatenate([energy, np.zeros(problem.media_rows, np.uint64)])
    return problem, before


def test_fluence_grows_to_a_billion_photons_and_on(device):
    """The last thousand of them count to the last quantum, next to the source too; single precision would stall."""
    problem, before = after_a_billion(device, LAST)
    earlier = assemble(problem, before, {})
    assert earlier.launched == BILLION
    found = simulate(problem.domain, problem.source, problem.settings, resume=earlier, device=device)
    assert (found.launched, found.complete) == (BILLION + LAST, True)
    added = found.state.open[1].path
    alone = cpu.Run(problem)
    alone.advance(BILLION, LAST)
    expected = alone.snapshot().open[1].path
    if not choose_device(device).is_gpu:
        np.testing.assert_array_equal(added, expected)
    hot = np.argmax(before.sums)
    assert added[hot] > 0
    assert np.float32(before.sums[hot]) + np.float32(added[hot] / LAST) == np.float32(before.sums[hot])  # would stall
    per_photon = [before.sums[hot] / BILLION, added[hot] / LAST]
    assert per_photon[1] == pytest.approx(per_photon[0], rel=0.2)
    whole = found.state.sums + added
    assert int(whole[hot]) - int(before.sums[hot]) == int(added[hot])
    inside = np.unravel_index(hot, problem.padded)
    fluence = found.fluence[tuple(i - 1 for i in inside)]
    unit = problem.scale * problem.domain.voxel_volume_mm3
    assert fluence == pytest.approx(int(whole[hot]) / unit / (BILLION + LAST), rel=1e-6)


def test_a_billion_photons_leave_room(device):
    """The fullest voxel of the energy tally and of the tally of a billion photons is far from the end of 64 bits."""
    problem, before = after_a_billion(device, 1)
    assert int(before.sums.max()) < 2**60
    assert int(before.sums.max()) > 2**50  # and it is more than single, or any 53 bits less 3, could count by ones
    assert problem.energy_scale * BILLION < 2**60
