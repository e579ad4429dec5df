"""Time gates: light is booked when it happens; a mirror box, a beam in a clear absorber, modulated light."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.trust import findings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Isotropic, Pencil
from napari_gpubio.probes import modulation_gates_ns
from napari_gpubio.probes.jacobians.modulation import modulation_weights
from tests.light.voxel_samples import TISSUE, make_domain

LIGHT_MM_PER_NS = 299.792458
BOX = LightSettings(photons=600, batches=4, faces=("mirror",) * 6, roulette_threshold=0.0)
PENCIL = Pencil(position_mm=(1.5, 1.5, 0.0), direction=(0, 0, 1))
CLEAR = Medium(label=1, mua_per_mm=0.02, n=1.4)


def box(edge_mm, mus, device, gates, **medium):
    """Light of an isotropic source in a closed cube of 8 mm without absorption."""
    count = round(8 / edge_mm)
    domain = make_domain((count,) * 3, Medium(label=1, mus_per_mm=mus, n=1.37, **medium), voxel_mm=edge_mm)
    source = Isotropic(position_mm=(4.1, 3.9, 4.2))
    return simulate(domain, source, dataclasses.replace(BOX, time_gates_ns=tuple(gates)), device=device)


def paths(result):
    """Path of a photon in each gate, mm."""
    return result.gates.sum(axis=(0, 1, 2), dtype=np.float64) * result.domain.voxel_volume_mm3


# -- path -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge_mm", [1, 2, 4])
@pytest.mark.parametrize("free_path_mm", [0.1, 2, 20])
@pytest.mark.parametrize("gate_ps", [20, 50, 100])
def test_each_gate_of_a_mirror_box_holds_the_path_that_light_goes_in_it(device, edge_mm, free_path_mm, gate_ps):
    edges = np.arange(6) * gate_ps * 1e-3
    result = box(edge_mm, 1 / free_path_mm, device, edges)
    np.testing.assert_allclose(paths(result), LIGHT_MM_PER_NS / 1.37 * gate_ps * 1e-3, rtol=2e-5)
    assert result.energy.truncated.value == pytest.approx(1.0, abs=1e-9)
    assert [one.status for one in findings(result) if "balance" in one.sentence] != ["error"]


@pytest.mark.parametrize("gates", [(0.0, 0.1), (0.1, 0.13), (0.03, 0.031, 0.0311, 0.9)], ids=str)
def test_one_gate_late_gates_and_uneven_ones(device, gates):
    result = box(2, 0.5, device, gates)
    np.testing.assert_allclose(paths(result), LIGHT_MM_PER_NS / 1.37 * np.diff(gates), rtol=1e-4)


def test_light_that_is_absorbed_before_the_first_gate_is_accounted_for(device):
    result = box(2, 0.5, device, (0.05, 0.1, 0.2), mua_per_mm=0.05)
    decay = np.exp(-0.05 * LIGHT_MM_PER_NS / 1.37 * np.array([0.05, 0.1, 0.2]))
    np.testing.assert_allclose(0.05 * paths(result), -np.diff(decay), rtol=1e-4)
    assert result.energy.absorbed.value == pytest.approx(1 - decay[-1], rel=1e-4)
    assert result.energy.truncated.value == pytest.approx(decay[-1], rel=1e-4)
    assert result.energy.total == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("gates", [(0.0, 0.02, 0.05, 0.2), (5.0, 6.0)], ids=str)
def test_a_beam_is_in_the_voxels_where_it_is_at_a_time(device, gates):
    """Also in gates after the last photon, which are empty."""
    domain = make_domain((3, 3, 12), CLEAR, outside_n=1.4)
    settings = LightSettings(photons=160, batches=2, roulette_threshold=0.0, time_gates_ns=gates)
    found = simulate(domain, PENCIL, settings, device=device).gates[1, 1]
    ends = np.clip(np.array(gates) * LIGHT_MM_PER_NS / 1.4, np.arange(12)[:, None], np.arange(1, 13)[:, None])
    np.testing.assert_allclose(found, -np.diff(np.exp(-0.02 * ends)) / 0.02, rtol=1e-4, atol=1e-6)


def test_steady_light_and_one_gate_are_the_same_but_for_what_comes_late(device):
    """Detected photons are the same, gates or none: what is split is only what is booked."""
    domain, source = make_domain((7, 7, 7)), Pencil(position_mm=(3.5, 3.5, 0.0), direction=(0, 0, 1))
    ring = (Detector(position_mm=(5.0, 3.5, 0.0), radius_mm=1.0),)
    steady, gated = (
        simulate(domain, source, LightSettings(photons=4000, **gates), detectors=ring, device=device)
        for gates in ({}, {"time_gates_ns": (0.0, 0.01, 0.03, 5.0)})
    )
    np.testing.assert_allclose(gated.fluence, steady.fluence, rtol=2e-4, atol=1e-7)
    assert len(gated.detected.weight) == len(steady.detected.weight) > 50
    np.testing.assert_allclose(np.sort(gated.detected.weight), np.sort(steady.detected.weight), rtol=1e-5)


# -- modulated light --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frequency_mhz", [100.0, 300.0])
def test_phase_of_modulated_light_that_is_scattered(device, frequency_mhz):
    """Against the same photons in gates of a picosecond."""
    domain, source = make_domain((5, 5, 5), TISSUE, voxel_mm=2.0), Isotropic(position_mm=(5, 5, 5))
    amplitudes = []
    for gates in (modulation_gates_ns(frequency_mhz, 0.6), tuple(np.arange(601) * 1e-3)):
        settings = LightSettings(photons=20_000, batches=2, time_gates_ns=gates)
        result = simulate(domain, source, settings, device=device)
        amplitudes.append(result.gates @ modulation_weights(gates, frequency_mhz))
    phase = np.angle(amplitudes[0] / amplitudes[1])
    assert np.sqrt(np.mean(phase**2)) < 3e-4
