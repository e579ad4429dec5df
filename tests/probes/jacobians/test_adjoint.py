"""Adjoint Jacobians of pulsed, modulated and continuous light against closed forms, and their errors."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.special import erfc

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.guide import _asymptotic_decay
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Isotropic, Pencil
from napari_gpubio.optics.theory import SPEED_OF_LIGHT_MM_PER_NS, diffusion_coefficient_mm
from napari_gpubio.probes.jacobians.adjoint import adjoint_jacobians, convolved
from napari_gpubio.probes.jacobians.modulation import modulation_weights
from tests.light.result_samples import sample_result
from tests.light.voxel_samples import grid_affine

MEDIUM = Medium(mua_per_mm=0.05, mus_per_mm=1.0, n=1.4)
SPEED = SPEED_OF_LIGHT_MM_PER_NS / MEDIUM.n
D = diffusion_coefficient_mm(MEDIUM)
# that with which real light decays, and the grid
TRANSPORT = MEDIUM.mua_per_mm / float(_asymptotic_decay(np, MEDIUM.mua_per_mm, MEDIUM.musp_per_mm)) ** 2
SHAPE, APART = (48, 34, 34), 12.0
ENDS = np.array([[18.0, 17.0, 17.0], [18.0 + APART, 17.0, 17.0]])
EDGES = tuple(np.round(np.arange(41) * 0.05, 4))


def domain(labels=None):
    labels = np.ones(SHAPE, np.uint8) if labels is None else labels
    media = tuple(dataclasses.replace(MEDIUM, label=label) for label in (1, 2))
    return Domain(labels=labels, affine=grid_affine(), media=media)


def half_and_half():
    labels = np.ones(SHAPE, np.uint8)
    labels[:, 17:] = 2
    return domain(labels)


@functools.cache
def gates_of(end):
    """Fluence in the gates of an isotropic source in an infinite medium, by diffusion theory; not to be changed."""
    voxels = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), -1) + 0.5
    r, decay = np.linalg.norm(voxels - end, axis=-1)[..., None], attenuation().real
    u = r / np.sqrt(4 * D * SPEED * np.maximum(EDGES, 1e-9))
    s = np.sqrt(MEDIUM.mua_per_mm * SPEED * np.array(EDGES))
    so_far = (np.exp(-decay * r) * erfc(u - s) + np.exp(decay * r) * erfc(u + s)) / (8 * np.pi * D * r)
    gates = np.diff(so_far).astype(np.float32)
    gates.flags.writeable = False
    return gates


def pulse(end, tissue, seed=1, noise=0.0):
    """A run that has these gates, with noise."""
    gates = gates_of(tuple(end))
    if noise:
        gates = gates * (1 + noise * np.random.default_rng(seed).standard_normal(gates.shape, np.float32))
    sample = sample_result((2, 2, 2), detectors=())
    return dataclasses.replace(
        sample,
        domain=tissue,
        source=Isotropic(position_mm=tuple(end)),
        settings=dataclasses.replace(sample.settings, time_gates_ns=EDGES, seed=seed),
        gates=gates,
        gates_error=np.zeros(gates.shape, np.float32),
        fluence_error=np.zeros(SHAPE, np.float32),
    )


@pytest.fixture(scope="module")
def found():
    tissue = half_and_half()
    return adjoint_jacobians(
        pulse(ENDS[0], tissue, 1), pulse(ENDS[1], tissue, 2), coefficients=("mua", "musp"), gates=True,
        frequency_mhz=400.0,
    )  # fmt: skip


def attenuation(frequency_mhz=0.0):
    omega = 2e-3 * np.pi * frequency_mhz
    return np.sqrt((MEDIUM.mua_per_mm + 1j * omega / SPEED) / D)


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_continuous_light(found):
    decay = attenuation().real
    path = APART / (2 * D * decay) * D / TRANSPORT
    scattering = (3 * D - 1.5 * D * decay * APART) * TRANSPORT / D
    assert found.of("mua").label_sums.sum() == pytest.approx(-path, rel=0.03)
    assert found.of("musp").label_sums.sum() == pytest.approx(scattering, rel=0.06)


def test_both_halves_have_the_same(found):
    for part in found.parts:
        first, second = part.label_sums[0]
        assert first == pytest.approx(second, rel=1e-3, abs=1e-6)


def test_a_gate_has_the_path_of_its_time(found):
    middles = (np.array(EDGES[1:]) + EDGES[:-1]) / 2
    for gate in range(6, 24, 3):
        part = found.of("mua", gate=gate)
        expected = -SPEED * middles[gate] * D / TRANSPORT
        assert part.label_sums.sum() == pytest.approx(expected, rel=0.04), gate
        assert part.gate_ns == pytest.approx((EDGES[gate], EDGES[gate + 1]))


def test_gates_together_are_continuous_light(found):
    gates = [found.of("mua", gate=gate) for gate in range(40)]
    whole = found.of("mua")
    light = np.array([gate.measured[0] for gate in gates])
    assert light.sum() == pytest.approx(whole.measured[0], rel=2e-3)  # what is left is later than the last gate
    mean = (light[:, None] * [gate.label_sums[0] for gate in gates]).sum(axis=0) / light.sum()
    np.testing.assert_allclose(mean, whole.label_sums[0], rtol=3e-3)


def test_nothing_is_known_of_a_gate_that_no_light_has_reached():
    late = [pulse(end, domain(), seed) for seed, end in enumerate(ENDS)]
    light_comes = np.arange(len(EDGES) - 1) >= 2
    late = [dataclasses.replace(run, gates=run.gates * light_comes) for run in late]
    found = adjoint_jacobians(*late, gates=True)
    assert found.of("mua", gate=20).label_sums[0, 0] < 0
    assert np.isnan(found.of("mua", gate=0).label_sums).all()
    assert np.isnan(found.of("mua", gate=0).values).all()


def test_runs_with_other_settings_of_light_are_refused():
    first, second = (pulse(end, domain(), seed) for seed, end in enumerate(ENDS))
    other = dataclasses.replace(second, settings=dataclasses.replace(second.settings, refraction=False))
    with pytest.raises(InvalidInput, match="different settings of refraction"):
        adjoint_jacobians(first, other)


def test_modulated_light(found):
    decay = attenuation(400.0)
    expected = -APART / (2 * D * decay) * D / TRANSPORT
    amplitude, phase = found.of("mua", "ln_amplitude"), found.of("mua", "phase")
    assert amplitude.label_sums.sum() == pytest.approx(expected.real, rel=0.03)
    assert phase.label_sums.sum() == pytest.approx(expected.imag, abs=0.01 * abs(expected))
    assert phase.measured[0] == pytest.approx(-(decay * APART).imag, rel=0.02)  # later is more negative
    ratio = amplitude.measured[0] / found.of("mua").measured[0]
    assert ratio == pytest.approx(np.exp(-APART * (decay.real - attenuation().real)), rel=5e-3)


def test_the_weights_of_gates_integrate_a_modulation_to_a_ten_thousandth():
    edges = np.arange(0.0, 6.0001, 0.1)
    omega, rate, rise = 2e-3 * np.pi * 200.0, 2.5, 6.0

    def integral(t, s):  # of t exp(-s t) from t on
        return np.exp(-s * t) * (t / s + 1 / s**2)

    gates = integral(edges[:-1], rate + 0j) - integral(edges[1:], rate + 0j)
    gates -= integral(edges[:-1], rise + 0j) - integral(edges[1:], rise + 0j)
    expected = 1 / (rate + 1j * omega) ** 2 - 1 / (rise + 1j * omega) ** 2
    amplitude = (modulation_weights(edges, 200.0) * gates).sum()
    assert abs(amplitude / expected - 1) < 3e-4
    assert abs(np.angle(amplitude / expected)) < 2e-4
    crude = (np.exp(-1j * omega * (edges[:-1] + 0.05)) * gates).sum()
    assert abs(crude / expected - 1) > 2 * abs(amplitude / expected - 1)


def test_times_of_two_gates_add_up_with_half_a_gate_more():
    a, b = np.zeros(8), np.zeros(8)
    a[2] = b[3] = 2.0
    np.testing.assert_array_equal(convolved(a, b), [0, 0, 0, 0, 0, 2.0, 2.0, 0])
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 3, 8))
    np.testing.assert_allclose(convolved(a, b), convolved(b, a))


# -- errors -----------------------------------------------------------------------------------------------------------


def test_errors_come_from_groups_of_photons():
    tissue = half_and_half()
    groups = [[pulse(end, tissue, 4 * side + group, 0.3) for group in range(4)] for side, end in enumerate(ENDS)]
    found = adjoint_jacobians(*groups, frequency_mhz=400.0)
    for part in found.parts:
        assert part.label_deviations.shape == (1, 8, 2)
        assert (part.label_errors > 0).all()
        both = found.region(part, (1, 2))[0]
        assert both.value == pytest.approx(part.label_sums.sum())
        assert part.measured_error[0] > 0
    part = found.of("mua")
    relative = part.errors[0] / np.abs(part.values[0])
    middle = relative[16:32, 11:23, 11:23]
    assert 0.01 < np.median(middle) < 0.3


def test_without_groups_the_errors_of_sums_are_not_known(found):
    assert np.isnan(found.of("mua").label_errors).all()
    assert np.isfinite(found.of("mua").errors).all()
    assert np.isnan(found.of("musp").errors).all()
    assert found.of("mua").label_deviations is None


def test_the_error_of_a_label_is_its_spread_over_repetitions():
    tissue = Domain(labels=np.ones((24, 16, 12), np.uint8), affine=grid_affine(), media=(MEDIUM,))
    settings = LightSettings(photons=800, batches=2)

    def runs(x, first):
        source = Pencil(position_mm=(x, 8.0, -0.01))
        return [simulate(tissue, source, dataclasses.replace(settings, seed=first + g), device="cpu") for g in range(3)]

    sums, errors = [], []
    for repeat in range(16):
        part = adjoint_jacobians(runs(7.0, 100 * repeat), runs(17.0, 100 * repeat + 50)).of("mua")
        sums.append(part.label_sums[0, 0])
        errors.append(part.label_errors[0, 0])
    ratio = np.sqrt(np.mean(np.square(errors))) / np.std(sums, ddof=1)
    assert 0.6 < ratio < 1.7  # of 16 repetitions with 4 degrees of freedom: three standard errors


# -- what cannot be ---------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    tissue = half_and_half()
    source, detector = pulse(ENDS[0], tissue, 1), pulse(ENDS[1], tissue, 2)
    with pytest.raises(InvalidInput, match="have the seed 1"):
        adjoint_jacobians(source, pulse(ENDS[1], tissue, 1))
    with pytest.raises(InvalidInput, match="differ in more than their seed"):
        adjoint_jacobians([source, pulse(ENDS[1], tissue, 3)], detector)
    with pytest.raises(InvalidInput, match="coefficient 'g' is not known"):
        adjoint_jacobians(source, detector, coefficients=("g",))
    with pytest.raises(InvalidInput, match="no runs"):
        adjoint_jacobians([], detector)
    with pytest.raises(InvalidInput, match="take those of modulation_gates_ns"):
        adjoint_jacobians(source, detector, frequency_mhz=3000.0)
    with pytest.raises(InvalidInput, match="frequency is -1"):
        adjoint_jacobians(source, detector, frequency_mhz=-1.0)
    uneven = dataclasses.replace(source.settings, time_gates_ns=(*EDGES[:-1], 3.0))
    both = (
        dataclasses.replace(run, settings=dataclasses.replace(uneven, seed=seed))
        for seed, run in enumerate((source, detector))
    )
    with pytest.raises(InvalidInput, match="equally wide"):
        adjoint_jacobians(*both, gates=True)
    dark = dataclasses.replace(source, gates=np.zeros_like(source.gates))
    with pytest.raises(InvalidInput, match=r"no light of the source reached the detector at \(30, 17, 17\) mm"):
        adjoint_jacobians(dark, detector)
