"""Several sources in one run: where photons start, that fluence is the weighted mean, and what is refused."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.guide import diffusion_guide
from napari_gpubio.light.io.results import describe, load_result, save_result
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.profile import depth_profile, detector_profile
from napari_gpubio.light.run import simulate, simulate_each
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.statistics import detected_sources
from napari_gpubio.light.summary import number_rows
from napari_gpubio.light.trust import findings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import KINDS, Cone, Disk, Isotropic, Pattern, Pencil
from tests.light.test_photon_backends import EVERYTHING, SOURCES, check_backends, scene, settings
from tests.light.voxel_samples import check_same_bits, make_domain
from tests.runs import check_threads_change_nothing

SPREAD = np.random.default_rng(4).random((3, 5)) ** 2
THREE = (
    Pencil(position_mm=(4.0, 4.0, -1.0), weight=1.0),
    Disk(position_mm=(9.0, 4.0, -1.0), radius_mm=2.0, weight=2.5),
    Pattern(position_mm=(6.0, 9.0, -1.0), width_mm=4.0, height_mm=3.0, pattern=SPREAD, weight=0.5),
)
NEAR = (Detector(position_mm=(2.0, 4.0, 0.0), radius_mm=1.5),)
MIN_P = 1e-4


def tissue():
    return make_domain((12, 12, 10))


def of_table(**changes):
    more = Pencil(position_mm=(4.6, 3.4, -1.0), launch_angles_deg=(0.0, 10.0, 20.0, 60.0))
    discrete = more.changed_to(Disk, launch_angles_are_discrete=True)
    return (*SOURCES, more, dataclasses.replace(discrete, **changes))


# -- where photons start ----------------------------------------------------------------------------------------------


def test_photons_start_at_sources_by_their_weights(device):
    """In a clear medium, a photon's place of escape and path give its start: at the source that was drawn for it."""
    domain = make_domain((8, 8, 8), Medium(label=1, n=1.0), voxel_mm=2.0)
    sources = [
        Cone(position_mm=(3.0, 4.0, 5.0), half_angle_deg=30.0, weight=3.0),
        Isotropic(position_mm=(12.0, 9.0, 8.0), weight=1.0),
        Disk(position_mm=(8.0, 12.0, 3.0), radius_mm=1.5, weight=6.0),
    ]
    everywhere = Detector(position_mm=(8.0, 8.0, 8.0), radius_mm=80.0)
    result = simulate(domain, sources, LightSettings(photons=40_000, seed=3), detectors=[everywhere], device=device)
    detected, drawn = result.detected, detected_sources(result)
    counts = np.bincount(drawn, minlength=3)
    assert stats.chisquare(counts, len(drawn) * np.array([0.3, 0.1, 0.6])).pvalue > MIN_P
    began = detected.position_mm - detected.direction * detected.path_mm
    for number in (0, 1):
        np.testing.assert_allclose(
            began[drawn == number], np.tile(sources[number].position_mm, (counts[number], 1)), atol=1e-4
        )
    cosine = detected.direction[drawn == 0, 2]
    assert stats.kstest((cosine - np.cos(np.pi / 6)) / (1 - np.cos(np.pi / 6)), "uniform").pvalue > MIN_P
    assert stats.kstest(detected.direction[drawn == 1, 2], "uniform", (-1, 2)).pvalue > MIN_P
    across = began[drawn == 2] - sources[2].position_mm
    assert stats.kstest(np.square(across[:, :2]).sum(axis=1) / 1.5**2, "uniform").pvalue > MIN_P


@pytest.mark.parametrize("with_rare", [False, pytest.param(True, marks=pytest.mark.long)])
def test_many_kinds_at_once_have_the_bits_of_their_backend(one_gpu, with_rare):
    """Rare ones are compiled once more by Numba; alone they are for `test_every_source_has_the_bits_of_its_backend`."""
    kinds = [source for source in of_table() if with_rare or not VoxelProblem(scene(), source, settings()).rare_source]
    some = [dataclasses.replace(source, weight=1.0 + number) for number, source in enumerate(kinds)]
    result = check_backends(scene(), some, settings(1200, **EVERYTHING))
    assert result.energy.absorbed.value > 0.1
    assert len(set(detected_sources(result))) > len(some) / 2


@pytest.mark.parametrize("source", of_table()[-2:], ids=["a range", "discrete"])
def test_launch_angles_alone_have_the_bits_of_their_backend(one_gpu, source):
    check_backends(scene(), source, settings(**EVERYTHING))


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_fluence_is_the_mean_by_weight_of_the_sources_alone():
    chosen = LightSettings(photons=12_000, exit_map=True)
    together = simulate(tissue(), THREE, chosen, detectors=NEAR, device="cpu")
    alone = simulate_each(tissue(), THREE, chosen, detectors=NEAR, device="cpu")
    shares = np.array([source.weight for source in THREE]) / 4.0
    fluence = sum(share * result.fluence for share, result in zip(shares, alone, strict=True))
    error = np.sqrt(sum((share * result.fluence_error) ** 2 for share, result in zip(shares, alone, strict=True)))
    seen = together.fluence_error < 0.2 * together.fluence
    z = ((together.fluence - fluence) / np.hypot(together.fluence_error, error))[seen]
    assert seen.sum() > 300
    assert 0.9 < np.sqrt(np.mean(z**2)) < 1.25  # errors from 16 batches: 1.07 is expected
    for name in ("absorbed", "escaped"):
        parts = [getattr(result.energy, name) for result in alone]
        value = sum(share * part.value for share, part in zip(shares, parts, strict=True))
        error = np.sqrt(sum((share * part.error) ** 2 for share, part in zip(shares, parts, strict=True)))
        assert abs(getattr(together.energy, name).z_score(value, error)) < 4
    assert abs(together.energy.total - 1.0) < 1e-6


def test_results_of_each_are_those_of_simulate_with_seeds_that_differ():
    chosen = LightSettings(photons=500, seed=2**64 - 1)
    each = simulate_each(tissue(), THREE[:2], chosen, device="cpu")
    for result, source, seed in zip(each, THREE, (2**64 - 1, 0), strict=False):
        check_same_bits(result, simulate(tissue(), source, dataclasses.replace(chosen, seed=seed), device="cpu"))
    assert not np.array_equal(each[0].fluence, each[1].fluence)


def test_one_source_in_a_list_keeps_its_bits():
    chosen = LightSettings(photons=300)
    weighted = dataclasses.replace(THREE[1], weight=7.0)
    check_same_bits(
        simulate(tissue(), [weighted], chosen, device="cpu"), simulate(tissue(), THREE[1], chosen, device="cpu")
    )


def test_threads_change_nothing(request):
    def run():
        return simulate(tissue(), THREE, LightSettings(photons=3000), detectors=NEAR, device="cpu")

    check_threads_change_nothing(request, run, check_same_bits)


@pytest.mark.long  # a build of its own
def test_a_run_goes_on_where_it_was(tmp_path):
    """From a file, with the sources, their patterns and angles; only with the same weights."""
    sources = (*THREE, dataclasses.replace(THREE[1], launch_angles_deg=(0.0, 30.0)))
    begun = simulate(tissue(), sources, LightSettings(photons=1600), detectors=NEAR, device="cpu")
    save_result(tmp_path / "begun.npz", begun)
    loaded = load_result(tmp_path / "begun.npz")
    assert [source.weight for source in loaded.sources] == [1.0, 2.5, 0.5, 2.5]
    np.testing.assert_array_equal(loaded.sources[2].pattern, SPREAD)
    assert loaded.sources[3].launch_angles_deg == (0.0, 30.0)
    more = LightSettings(photons=2400)
    found = simulate(tissue(), loaded.source, more, detectors=NEAR, device="cpu", resume=loaded)
    expected = simulate(tissue(), sources, dataclasses.replace(more, batches=24), detectors=NEAR, device="cpu")
    check_same_bits(found, expected)
    other = (*sources[:3], dataclasses.replace(sources[3], weight=2.0))
    with pytest.raises(InvalidInput, match="another simulation"):
        simulate(tissue(), other, more, detectors=NEAR, device="cpu", resume=loaded)


def test_keys_tell_sources_apart():
    def key(*sources):
        return VoxelProblem(tissue(), sources[0], LightSettings(), others=sources[1:]).key

    heavier = dataclasses.replace(THREE[1], weight=3.0)
    turned = dataclasses.replace(THREE[1], launch_angles_deg=(0.0, 30.0))
    discrete = dataclasses.replace(turned, launch_angles_are_discrete=True)
    keys = {
        key(*THREE), key(*THREE[:2]), key(*THREE[::-1]), key(THREE[0], heavier), key(THREE[0], turned),
        key(THREE[0], discrete), key(turned), key(discrete), key(THREE[1]),
    }  # fmt: skip
    assert len(keys) == 9
    assert key(heavier) == key(THREE[1])  # the weight of a single one does not matter


def test_the_guide_is_that_of_all_sources():
    """Diffusion is linear: the mean by weight of the guides of each."""
    chosen = LightSettings(photons=1000)
    guides = [diffusion_guide(tissue(), source, chosen, device="cpu") for source in THREE[:2]]
    both = diffusion_guide(tissue(), THREE[:2], chosen, device="cpu")
    expected = (guides[0] + 2.5 * guides[1]) / 3.5
    far = np.s_[:, :, 4:]
    np.testing.assert_allclose(both[far], expected[far], rtol=0.02)


def test_what_is_reported_of_several_sources():
    behind = Disk(position_mm=(6.0, 6.0, 3.0), direction=(0.0, 1.0, 0.5), radius_mm=5.0)
    result = simulate(tissue(), (THREE[0], behind), LightSettings(photons=400), detectors=NEAR, device="cpu")
    assert any("of source 2 lies behind the surface" in finding.sentence for finding in findings(result))
    names = {row.name for row in number_rows(result)}
    assert "Detected weight" in names
    assert not {"Separation", "DPF"} & names
    assert [source["weight"] for source in describe(result)["source"]] == [1.0, 1.0]
    assert len(result.parameters["source"]) == 2
    for use in (lambda: depth_profile(result), lambda: detector_profile(result, 0)):
        with pytest.raises(InvalidInput, match="there are 2 sources, and a profile"):
            use()


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_are_positive(weight):
    with pytest.raises(InvalidInput, match="weight is"):
        Pencil(weight=weight)


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ((), "there are 0 sources"),
        ((THREE[0], "pencil"), "'pencil' is no light source"),
        ((THREE[0], Pencil(position_mm=(-50, 4, -1)), THREE[1]), "source 2 of 3: The source is outside the tissue"),
        ((THREE[0], dataclasses.replace(SOURCES[3], numerical_aperture=1.9)), "numerical aperture is 1.9"),
    ],
)
def test_sources_that_cannot_be_simulated(sources, words):
    with pytest.raises(InvalidInput, match=words):
        simulate(tissue(), sources, LightSettings(photons=10), device="cpu")
    if len(sources) > 1:
        with pytest.raises(InvalidInput, match=words):
            simulate_each(tissue(), sources, LightSettings(photons=10), device="cpu")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"launch_angles_deg": (10.0, 5.0)}, "fall from 10 to 5 degrees"),
        ({"launch_angles_deg": (0.0, 190.0)}, "from 0 to 180"),
        ({"launch_angles_deg": (0.0, np.nan)}, "launch_angles_deg.* is nan; give a finite number"),
        ({"launch_angles_deg": (5.0,)}, "has 1 launch angles; give 2"),
        ({"launch_angles_deg": (), "launch_angles_are_discrete": True}, "has 0 launch angles; give 1"),
        ({"launch_angles_deg": (0.0, 5.0), "kind": "disk", "focus_mm": 5.0}, "a focus at 5 mm"),
        ({"launch_angles_deg": (0.0, 5.0), "kind": "slit", "spread_along": 0.2}, "a spread of its own"),
        (
            {"launch_angles_deg": (0.0, 5.0), "kind": "planar", "width_axis": (1, 0, 0), "height_axis": (1, 1, 0)},
            "height_axis and launch angles",
        ),
    ],
)
def test_launch_angles_that_are_none(changes, words):
    kind = KINDS[changes.pop("kind", "pencil")]
    with pytest.raises(InvalidInput, match=words):
        kind(**changes)


def test_a_stack_of_patterns_is_not_one():
    with pytest.raises(InvalidInput, match="trace it with simulate_patterns"):
        Pattern(pattern=np.ones((2, 3, 3)))
