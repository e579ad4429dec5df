"""Where a replay knows nothing, what it takes, and what it refuses."""

import dataclasses
import math
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.patterns import simulate_patterns
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.sources import Planar
from napari_gpubio.probes.jacobians.replay import replay, replay_steps
from tests.light.voxel_samples import MAX_Z
from tests.probes.jacobians.test_replay import SLAB_DETECTORS, SLAB_SOURCE, slab, slab_domain, slab_jacobians
from tests.probes.jacobians.test_replay_backends import check_same
from tests.runs import finished


def test_scattering_is_not_known_where_there_is_none():
    domain = slab_domain(**{"2": {"mus_per_mm": 0.0}})
    found = replay(slab(4000, domain=domain), of=("mua", "mus", "musp"), detectors=[0, 1])
    clear = domain.labels == 2
    for coefficient in ("mus", "musp"):
        part = found.of(coefficient)
        for array in (part.values, part.errors):
            assert np.isnan(array[:, clear]).all()
            assert np.isfinite(array[:, ~clear]).all()
        assert np.isnan(part.label_sums[:, 1]).all()
        assert np.isfinite(part.label_sums[:, [0, 2]]).all()
    assert np.isfinite(found.of("mua").values).all()
    assert "µs is 0" in " ".join(found.notes)


def test_scattering_is_not_known_in_single_voxels_without_it():
    base = slab_domain()
    table = np.array([0, 4.0, 0.05, 6.0])
    mus = table[base.labels].astype(np.float32)
    mus[6, 6, 1] = 0.0
    part = replay(slab(3000, domain=dataclasses.replace(base, mus_per_mm=mus)), detectors=[0]).of("mus")
    assert np.isnan(part.values[0, 6, 6, 1])
    assert np.isnan(part.values).sum() == 1
    assert np.isnan(part.label_sums[0, 0])
    assert np.isfinite(part.label_sums[0, 1:]).all()


@pytest.mark.long  # a build of its own
def test_scattering_is_not_known_where_it_follows_fibers():
    domain = slab_domain()
    tensors = np.zeros((*domain.shape, 6))
    tensors[4:8, 4:8, 4:, :3] = 5.0, 5.0, 2.0
    part = replay(slab(4000, domain=domain.with_tensors(tensors)), detectors=[0, 1])
    fibrous = tensors.any(axis=-1)
    assert np.isnan(part.of("mus").values[:, fibrous]).all()
    assert np.isfinite(part.of("mus").values[:, ~fibrous]).all()
    assert np.isfinite(part.of("mua").values).all()
    assert "depends on the direction" in part.notes[0]


@pytest.mark.long
def test_light_of_several_sources_is_replayed_together():
    """Each photon starts at one of them; mean paths are those of the list.

    Numba compiles for it alone; without it, sources and replays are for `test_several_sources` and `test_replay`.
    """
    sources = [SLAB_SOURCE, dataclasses.replace(SLAB_SOURCE, position_mm=(9.0, 6.0, -0.5), weight=2.0)]
    settings = LightSettings(photons=6000, seed=4)
    result = simulate(slab_domain(), sources, settings, detectors=SLAB_DETECTORS[:4], device="cpu")
    found = replay(result, of=("mua",))
    for d in range(4):
        np.testing.assert_allclose(found.of().label_sums[d], -result.detected.of(d).mean_path_mm(), rtol=1e-6)
    assert found.channels[0].source == "S1+S2"
    assert math.isnan(found.channels[0].separation_mm)


def test_patterns_that_share_photons_are_refused():
    shape = Planar(position_mm=(6.0, 6.0, -1.0), width_mm=4.0, height_mm=4.0)
    images = np.random.default_rng(3).random((2, 4, 4))
    result = simulate_patterns(
        slab_domain(), shape, images, LightSettings(photons=500), detectors=SLAB_DETECTORS[:2], device="cpu"
    ).of(0)
    with pytest.raises(InvalidInput, match="patterns that shared photons"):
        replay(result, detectors=[0])


def test_a_gate_that_no_photon_arrives_in_is_not_known():
    found = replay(slab(2000), gates_ns=(0.0, 1.0, 4.0, 4.5), detectors=[0])
    late = found.of(gate=2)
    assert late.measured[0] == 0
    assert np.isnan(late.values).all()
    assert np.isnan(late.label_errors).all()
    assert np.isfinite(found.of(gate=0).values).all()


def test_a_full_list_is_that_of_fewer_photons():
    """Of a list that dropped photons: those with the smallest numbers are there, as of a shorter run."""
    found = replay(slab(4000, max_detected=600), detectors=[0, 1])
    listed = slab(4000, max_detected=600).detected
    last = int(listed.photon[-1])
    shorter = replay(dataclasses.replace(slab(last)), detectors=[0, 1])
    check_same(found, shorter)
    assert "without bias" in " ".join(found.notes)
    assert f"first {last:,} photons" in found.notes[0]


# -- steps, files, input ----------------------------------------------------------------------------------------------


def test_a_result_from_a_file_is_replayed_alike(tmp_path):
    result = slab(3000)
    save_result(tmp_path / "run.npz", result, resumable=False)
    check_same(replay(load_result(tmp_path / "run.npz"), detectors=[0, 3]), replay(result, detectors=[0, 3]))


def test_chosen_detectors_come_in_their_order():
    everything = replay(slab(6000))
    few = replay(slab(6000), detectors=["7 6 0", 0])
    assert [channel.detector for channel in few.channels] == ["7 6 0", "3 6 0"]
    assert few.channel("7 6 0") == few.channel("S1-7 6 0") == 0
    for a, b in zip(few.parts, everything.parts, strict=True):
        np.testing.assert_array_equal(a.values, b.values[[4, 0]])
    assert few.channels[1].separation_mm == pytest.approx(0.5)


def test_steps_count_photons_and_stop_keeps_whole_detectors(in_chunks_of):
    in_chunks_of(100)
    result, stop = slab(6000), threading.Event()
    seen, whole = finished(replay_steps(result))
    assert [seen[-1].done, seen[-1].total] == [len(result.detected)] * 2
    steps = replay_steps(result, stop=stop)
    while next(steps).done < len(result.detected.of(0)) + 1:
        pass
    stop.set()
    _, part = finished(steps)
    assert not part.complete
    assert 1 <= len(part.channels) < len(whole.channels)
    np.testing.assert_array_equal(part.of().values, whole.of().values[: len(part.channels)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"of": ()}, "of is"),
        ({"of": ("g",)}, "mua, mus, musp"),
        ({"of": "mua"}, "of is 'mua'"),
        ({"gates_ns": (0.0,)}, "at least two edges"),
        ({"gates_ns": (0.0, 2.0, 1.0)}, "each later"),
        ({"gates_ns": (-1.0, 2.0)}, "from 0 up"),
        ({"frequency_mhz": 0.0}, "greater than 0"),
        ({"frequency_mhz": math.nan}, "greater than 0"),
        ({"detectors": [30]}, "there is no detector 30"),
        ({"detectors": ["nose"]}, "there is no detector 'nose'"),
        ({"detectors": [0, 0]}, "each detector once"),
        ({"device": "cuda"}, "made on cpu|CuPy|GPU"),
    ],
)
def test_what_cannot_be_done_is_refused(changes, message):
    with pytest.raises((InvalidInput, RuntimeError), match=message):
        replay(slab(500), **changes)


def test_another_kind_of_processor_is_refused(fake_gpu):
    fake_gpu()
    with pytest.raises(InvalidInput, match=r"made on cpu .* same kind of processor only"):
        replay(slab(500), device="cuda")
    on_gpu = dataclasses.replace(slab(500), parameters={"device": "cuda:0 (NVIDIA H100)"})
    with pytest.raises(InvalidInput, match="made on cuda:0"):
        replay(on_gpu, device="cpu")


def test_results_without_detected_photons_are_refused():
    far = Detector(position_mm=(12.0, 12.0, 8.0), radius_mm=0.01, name="far")
    with pytest.raises(InvalidInput, match=r"no photon has reached far; .*detectors=\['3 6 0'"):
        replay(slab(300, detectors=(SLAB_DETECTORS[0], far)))
    for result, message in (
        (slab(300, detectors=()), "has no detectors"),
        (slab(300, detectors=(far,)), "no photon reached a detector"),
        (slab(300, max_detected=0), "max_detected"),
    ):
        with pytest.raises(InvalidInput, match=message):
            replay(result)
    other = dataclasses.replace(slab(300), settings=LightSettings(photons=300, seed=6, roulette_threshold=0.0))
    with pytest.raises(InvalidInput, match="another simulation"):
        replay(other)


def test_parts_and_regions_are_found_or_named():
    found = slab_jacobians()
    assert {part.unit for part in found.parts} == {"mm", "ns mm", "rad mm"}
    with pytest.raises(InvalidInput, match="there is no d ln_intensity / d musp"):
        found.of("musp")
    with pytest.raises(InvalidInput, match="of gate 9"):
        found.of(gate=9)
    with pytest.raises(InvalidInput, match="label 9 does not occur"):
        found.region(found.of(), [9])
    with pytest.raises(InvalidInput, match="no single channel 99"):
        found.channel(99)
    both = found.region(found.of(), [1, 3])
    assert both[0].value == pytest.approx(found.of().label_sums[0, [0, 2]].sum())
    single = found.region(found.of(), [2])
    assert single[3].error == pytest.approx(found.of().label_errors[3, 1])
    assert MAX_Z > 3
