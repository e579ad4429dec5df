"""Jacobians by replay against other programs, against runs with other coefficients, and what their errors are worth."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest

from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.phantom import default_source, load_head_phantom
from napari_gpubio.optics.sources import Pencil
from napari_gpubio.probes.jacobians.replay import replay
from tests.described import check_described
from tests.light.voxel_samples import check_z, make_domain

LIGHT_MM_PER_NS = 299.792458
FREQUENCY = 300.0
GATES = (0.0, 0.05, 0.1, 0.3)


def ring_media(scale=(1.0, 1.0, 1.0)):
    return tuple(Medium(label=k + 1, mua_per_mm=0.01, mus_per_mm=scale[k], g=0.0, n=1.0) for k in range(3))


@functools.cache
def ring(photons, seed, size=81, depth=51, media=None):
    """The light that leaves a half-space between 9 and 11 mm from a pencil beam, by layers from 2 and 6 mm down."""
    labels = np.full((size, size, depth), 3, np.uint8)
    labels[:, :, :2], labels[:, :, 2:6] = 1, 2
    middle = (size / 2, size / 2, 0.0)
    detectors = [
        Detector(position_mm=middle, radius_mm=radius, normal=(0, 0, 1), name=name)
        for name, radius in (("inside", 9.0), ("ring", 11.0))
    ]
    settings = LightSettings(photons=photons, seed=seed, time_gates_ns=(0.0, 400 / LIGHT_MM_PER_NS))
    source = Pencil(position_mm=(*middle[:2], -1.0))
    domain = make_domain(labels, *(media or ring_media()))
    return simulate(domain, source, settings, detectors=detectors, device="cpu")


def slab_domain(**changes):
    """Two media with a clear layer between them, 12 x 12 x 8 mm."""
    labels = np.ones((12, 12, 8), np.uint8)
    labels[:, :, 3], labels[:, :, 4:] = 2, 3
    media = (
        Medium(label=1, mua_per_mm=0.02, mus_per_mm=4.0, g=0.7, n=1.4),
        Medium(label=2, mua_per_mm=0.004, mus_per_mm=0.05, g=0.7, n=1.33),
        Medium(label=3, mua_per_mm=0.03, mus_per_mm=6.0, g=0.8, n=1.4),
    )
    return make_domain(labels, *(dataclasses.replace(m, **changes.get(str(m.label), {})) for m in media))


SLAB_SOURCE = Pencil(position_mm=(3.0, 6.0, -0.5))
SLAB_DETECTORS = tuple(
    Detector(position_mm=(x, y, z), radius_mm=1.2, name=f"{x:g} {y:g} {z:g}")
    for z in (0.0, 8.0)
    for x in (3.0, 5.0, 7.0, 9.0, 11.0)
    for y in (6.0, 9.0)
)


def slab(photons=20_000, seed=5, domain=None, threshold=0.0, detectors=SLAB_DETECTORS, **more):
    settings = LightSettings(photons=photons, seed=seed, roulette_threshold=threshold, **more)
    return simulate(domain or slab_domain(), SLAB_SOURCE, settings, detectors=detectors, device="cpu")


@functools.cache
def slab_jacobians():
    return replay(slab(), mean_time=True, gates_ns=GATES, frequency_mhz=FREQUENCY)


def measured(result):
    """What each detector measures: ln intensity, mean time, ln intensity in gates, ln amplitude, phase; (D, 7)."""
    rows = []
    for d in range(len(result.detectors)):
        found = result.detected.of(d)
        w, t = found.weight.astype(float), found.time_ns
        signal = (w * np.exp(-2e-3j * math.pi * FREQUENCY * t)).sum()
        gates = [w[(t >= a) & (t < b)].sum() for a, b in itertools.pairwise(GATES)]
        with np.errstate(divide="ignore"):
            rows.append([np.log(w.sum()), w @ t / w.sum(), *np.log(gates), np.log(np.abs(signal)), np.angle(signal)])
    return np.array(rows)


def parts(jacobians, coefficient):
    """Parts in the order of `measured`."""
    gates = [jacobians.of(coefficient, gate=g) for g in range(len(GATES) - 1)]
    return [
        jacobians.of(coefficient), jacobians.of(coefficient, "mean_time"), *gates,
        jacobians.of(coefficient, "ln_amplitude"), jacobians.of(coefficient, "phase"),
    ]  # fmt: skip


# -- against numbers from elsewhere -----------------------------------------------------------------------------------

# Sums over the layers, mm, with standard errors: an independent program that records the paths of detected photons.
RING_MUA = (-15.68, 0.06), (-31.27, 0.16), (-11.84, 0.14)
RING_MUS = (-0.829, 0.033), (-0.570, 0.043), (0.111, 0.021)


def check_ring(photons, seed):
    found = replay(ring(photons, seed), detectors=["ring"])
    for coefficient, reference in (("mua", RING_MUA), ("mus", RING_MUS)):
        part = found.of(coefficient)
        expected, errors = np.array(reference).T
        # errors of 16 groups are themselves uncertain by 18 %, so z is that of Student's t with 15 degrees of freedom
        check_z(part.label_sums[0] - expected, np.hypot(part.label_errors[0], errors), 3.0)
    intensity = found.of()
    check_z(intensity.measured[0] - 1.3836e-2, math.hypot(intensity.measured_error[0], 1.2e-5), 3.0)


def test_a_ring_on_a_half_space_has_the_numbers_of_another_program():
    check_ring(60_000, 8)


@pytest.mark.long
def test_a_ring_on_a_half_space_has_the_numbers_of_another_program_with_more_photons():
    check_ring(500_000, 1)


# -- against runs with other coefficients -----------------------------------------------------------------------------


def test_sums_over_labels_are_the_mean_partial_paths_of_detected_photons():
    jacobians, detected = slab_jacobians(), slab().detected
    for d in range(len(SLAB_DETECTORS)):
        found = detected.of(d)
        np.testing.assert_allclose(jacobians.of("mua").label_sums[d], -found.mean_path_mm(), rtol=1e-6)
        voxels = jacobians.of("mua").values[d].sum(dtype=np.float64)
        assert voxels == pytest.approx(-found.mean_path_mm().sum(), rel=1e-5)
        assert jacobians.of("mua").measured[d] == pytest.approx(found.detected_weight, rel=1e-12)
        assert jacobians.of("mua", "mean_time").measured[d] == pytest.approx(found.mean_time_ns(), rel=1e-9)


@pytest.mark.parametrize("label", [1, 2, 3])
def test_absorption_of_a_layer_changes_what_20_detectors_measure_as_predicted(label):
    """Without roulette photons keep their paths whatever the absorption is: the differences have no noise."""
    step, medium = 1e-4, slab_domain().medium(label)
    low, high = (
        measured(slab(domain=slab_domain(**{str(label): {"mua_per_mm": medium.mua_per_mm + sign * step}})))
        for sign in (-1, 1)
    )
    expected = (high - low) / (2 * step)
    assert len(expected) == 20
    for column, part in enumerate(parts(slab_jacobians(), "mua")):
        found, error = part.label_sums[:, label - 1], part.label_errors[:, label - 1]
        known = np.isfinite(expected[:, column])  # not so in a gate that no photon arrives in
        assert known.sum() >= (20 if part.gate_ns is None else 5)
        difference = np.abs(found - expected[:, column])[known]
        size = np.abs(expected[known, column])
        assert (difference <= 2e-3 * size + 0.1 * error[known]).all(), part.name


def test_absorption_of_single_voxels_changes_what_is_measured_as_predicted():
    labels, step, photons = slab_domain(), 2e-3, 8000
    places = [(3, 6, 0), (4, 6, 1), (5, 7, 2), (4, 5, 3), (6, 6, 5)]
    base = labels.absorption()
    expected = []
    for place in places:
        changed = []
        for sign in (-1, 1):
            mua = base.copy()
            mua[place] += sign * step
            domain = dataclasses.replace(labels, mua_per_mm=mua)
            changed.append(measured(slab(photons, domain=domain, detectors=SLAB_DETECTORS[:4]))[:, :2])
        expected.append((changed[1] - changed[0]) / (2 * step))
    first = dataclasses.replace(labels, mua_per_mm=base)
    found = replay(slab(photons, domain=first, detectors=SLAB_DETECTORS[:4]), of=("mua",), mean_time=True)
    for column, measure in enumerate(("ln_intensity", "mean_time")):
        values = np.array([found.of("mua", measure).values[:, *place] for place in places])
        np.testing.assert_allclose(values, np.array(expected)[:, :, column], rtol=5e-3, atol=2e-5)


@pytest.mark.long
def test_absorption_of_a_head_changes_what_10_pairs_measure_as_predicted():
    head = load_head_phantom()
    ahead = np.array(default_source(head).direction)
    top = np.array(default_source(head).position_mm)
    across = np.cross(ahead, [0.0, 1.0, 0.0] if abs(ahead[1]) < 0.9 else [1.0, 0.0, 0.0])
    across /= np.linalg.norm(across)
    from napari_gpubio.optics.surface import nearest_surface

    pairs = 0
    for shift in (-9.0, 9.0):
        source = dataclasses.replace(
            default_source(head), position_mm=tuple(nearest_surface(head.labels, head.affine, top + shift * across))
        )
        detectors = [
            Detector(
                position_mm=tuple(nearest_surface(head.labels, head.affine, top + (shift + d) * across)), radius_mm=5.0
            )
            for d in (6.0, 10.0, 14.0, 18.0, 22.0)
        ]
        settings = LightSettings(photons=30_000, roulette_threshold=0.0)
        labels = {head.medium(label).name: label for label in head.labels_present}
        step = 2e-4
        runs = []
        for sign in (-1, 0, 1):
            media = [
                dataclasses.replace(m, mua_per_mm=m.mua_per_mm + sign * step) if m.name in ("CSF", "gray matter") else m
                for m in head.media
            ]
            runs.append(simulate(head.with_optics(media), source, settings, detectors=detectors, device="cpu"))
        reached = [d for d in range(5) if len(runs[1].detected.of(d)) > 20]
        found = replay(runs[1], of=("mua",), detectors=reached)
        sums = found.region(found.of(), [labels["CSF"], labels["gray matter"]])
        for d, estimate in zip(reached, sums, strict=True):
            low, high = (np.log(runs[k].detected.of(d).weight.sum(dtype=float)) for k in (0, 2))
            assert estimate.value == pytest.approx((high - low) / (2 * step), rel=5e-3, abs=1e-3)
            assert abs(estimate.z_score((high - low) / (2 * step))) < 0.3
        pairs += len(reached)
    assert pairs >= 7


def test_scattering_of_the_middle_layer_changes_the_intensity_as_predicted():
    """Another run has other photons, so there is noise; the change is a tenth, so there is a second order, too."""
    photons, factor = 60_000, 1.1
    base, changed = ring(photons, 8), ring(photons, 9, media=ring_media((1.0, factor, 1.0)))
    found = replay(base, detectors=["ring"]).of("mus")
    expected = found.label_sums[0, 1] * (factor - 1.0)
    intensity = [run.detected.of(1).detected_weight for run in (base, changed)]
    counts = [len(run.detected.of(1)) for run in (base, changed)]
    error = math.hypot(*(1.1 / math.sqrt(count) for count in counts), found.label_errors[0, 1] * (factor - 1.0))
    check_z(math.log(intensity[1] / intensity[0]) - expected, error)


def test_scattering_in_a_slab_changes_time_and_phase_as_predicted():
    """All four ways that light is measured, at one large detector on the far side."""
    detector = [Detector(position_mm=(6.0, 6.0, 8.0), radius_mm=8.0)]
    factor, photons = 1.06, 60_000
    jacobians = replay(slab(photons, detectors=detector), of=("mus",), mean_time=True, frequency_mhz=FREQUENCY)
    low, high = (
        slab(photons, seed=seed, domain=slab_domain(**{"3": {"mus_per_mm": 6.0 * scale}}), detectors=detector)
        for seed, scale in ((21, 1 / factor), (22, factor))
    )
    step = 6.0 * (factor - 1 / factor)
    names = ("ln_intensity", "mean_time", "ln_amplitude", "phase")
    values = {name: [] for name in names}
    for run in (low, high):
        own = replay(run, of=("mus",), mean_time=True, frequency_mhz=FREQUENCY)
        for name in names:
            part = own.of("mus", name)
            value, error = part.measured[0], part.measured_error[0]
            if name.startswith("ln"):
                value, error = math.log(value), error / value
            values[name].append((value, error))
    for name in names:
        (a, a_error), (b, b_error) = values[name]
        part = jacobians.of("mus", name)
        expected = part.label_sums[0, 2] * step
        check_z(b - a - expected, math.hypot(a_error, b_error, part.label_errors[0, 2] * step))
    assert abs(jacobians.of("mus").label_sums[0, 2] / jacobians.of("mus").label_errors[0, 2]) > 4


def test_reduced_scattering_is_scattering_over_one_less_g():
    jacobians = replay(slab(4000), of=("musp", "mus"), detectors=[0, 1])
    for name in ("values", "errors"):
        mus, musp = (getattr(jacobians.of(coefficient), name) for coefficient in ("mus", "musp"))
        g = np.select([slab_domain().labels == label for label in (1, 2, 3)], [0.7, 0.7, 0.8])
        np.testing.assert_allclose(musp, mus / (1 - g), rtol=1e-6)
    np.testing.assert_allclose(
        jacobians.of("musp").label_errors, jacobians.of("mus").label_errors / [0.3, 0.3, 0.2], rtol=1e-9
    )


def test_roulette_and_gates_of_the_run_bias_nothing():
    """The same sums come from runs with other weights and other tallies, within both errors."""
    some, photons = SLAB_DETECTORS[:3] + SLAB_DETECTORS[10:11], 60_000
    plain = replay(slab(photons, detectors=some))
    other = replay(slab(photons, seed=77, detectors=some, threshold=0.5, time_gates_ns=(0.02, 0.06, 5.0)))
    for coefficient in ("mua", "mus"):
        a, b = plain.of(coefficient), other.of(coefficient)
        check_z(a.label_sums - b.label_sums, np.hypot(a.label_errors, b.label_errors))


# -- what the errors are worth ----------------------------------------------------------------------------------------


def spread_over_claim(seeds, photons):
    """For voxels with enough photons, and for sums over labels: spread over seeds, over the errors claimed (rms)."""
    detector = [Detector(position_mm=(6.0, 6.0, 0.0), radius_mm=4.0)]
    runs = [
        replay(slab(photons, seed=100 + seed, detectors=detector), mean_time=True, gates_ns=(0.02, 0.2),
               frequency_mhz=FREQUENCY)
        for seed in range(seeds)
    ]  # fmt: skip
    found = {}
    for number, part in enumerate(runs[0].parts):
        values = np.array([run.parts[number].values[0] for run in runs], float)
        errors = np.array([run.parts[number].errors[0] for run in runs], float)
        enough = np.abs(values.mean(axis=0)) > 3 * values.std(axis=0)
        enough &= (values != 0).all(axis=0)
        if enough.sum() > 20:
            ratio = values[:, enough].std(axis=0, ddof=1) / np.sqrt(np.square(errors[:, enough]).mean(axis=0))
            found[part.name] = np.sqrt(np.square(ratio).mean())
        sums = np.array([run.parts[number].label_sums[0] for run in runs])
        label_errors = np.array([run.parts[number].label_errors[0] for run in runs])
        ratio = sums.std(axis=0, ddof=1) / np.sqrt(np.square(label_errors).mean(axis=0))
        found[f"{part.name}, labels"] = np.sqrt(np.square(ratio).mean())
        pair = np.array([[run.region(run.parts[number], [1, 3])[0]] for run in runs])[:, 0]
        found[f"{part.name}, two labels"] = pair[:, 0].std(ddof=1) / np.sqrt(np.square(pair[:, 1]).mean())
        measured = np.array([run.parts[number].measured[0] for run in runs])
        claimed = np.array([run.parts[number].measured_error[0] for run in runs])
        found[f"{part.name}, measured"] = measured.std(ddof=1) / np.sqrt(np.square(claimed).mean())
    return found


def test_errors_are_the_spread_over_seeds():
    """Of 24 seeds, a spread is known within 15 %, and the mean of several of one run somewhat better."""
    found = spread_over_claim(24, 1000)
    voxels = [ratio for name, ratio in found.items() if "labels" not in name and "measured" not in name]
    assert len(voxels) >= 3
    for name, ratio in found.items():
        assert 0.6 < ratio < 1.5, name
    assert 0.85 < np.sqrt(np.square(voxels).mean()) < 1.15
    assert 0.8 < np.sqrt(np.square(list(found.values())).mean()) < 1.2


@pytest.mark.long
def test_errors_are_the_spread_over_many_seeds():
    """Of 200 seeds, a spread is known within 5 %."""
    found = spread_over_claim(200, 2000)
    for name, ratio in found.items():
        assert 0.85 < ratio < 1.15, (name, ratio)


def test_they_show_themselves():
    check_described(slab_jacobians(), "sums by label")
