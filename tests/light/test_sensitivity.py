"""The sensitivity of a measurement to absorption against mean paths of diffusion theory and of detected photons."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.guide import _asymptotic_decay
from napari_gpubio.light.run import simulate
from napari_gpubio.light.sensitivity import sensitivity
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.sources import Isotropic, Pencil
from napari_gpubio.optics.theory import (
    diffusion_coefficient_mm,
    fluence_infinite,
    fluence_semi_infinite,
    mean_path_semi_infinite,
    transport_mean_free_path_mm,
)
from tests.light.result_samples import sample_result

TISSUE = Medium(mua_per_mm=0.02, mus_per_mm=10.0, g=0.9, n=1.37)
SPECULAR = 0.0244
SEPARATION = 14.0


def block(shape=(64, 50, 36), size=(1.0, 1.0, 1.0), flip=False):
    """A homogeneous block whose upper face is at z = 0; its lower part, below 9 mm, has the label 2."""
    matrix = np.diag([*size, 1.0])
    matrix[:3, 3] = np.array(size) / 2
    if flip:  # stored from right to left
        matrix[0, 0], matrix[0, 3] = -size[0], (shape[0] - 0.5) * size[0]
    labels = np.ones(shape, np.uint8)
    labels[:, :, round(9 / size[2]) :] = 2
    return Domain(labels=labels, affine=matrix, media=(TISSUE, dataclasses.replace(TISSUE, label=2)))


DOMAIN = block()


def centers(domain):
    index = np.stack(np.meshgrid(*map(np.arange, domain.shape), indexing="ij"), -1)
    return index @ domain.affine[:3, :3].T + domain.affine[:3, 3]


def run_of(domain, source, fluence, relative_error=0.0, specular=0.0):
    """What a simulation with this fluence per photon that entered would give."""
    sample = sample_result((2, 2, 2), detectors=())
    fluence = (fluence * (1 - specular)).astype(np.float32)
    error = (fluence * relative_error).astype(np.float32)
    return dataclasses.replace(
        sample,
        domain=domain,
        source=source,
        gates=fluence[..., None],
        gates_error=error[..., None],
        fluence_error=error,
        energy=dataclasses.replace(sample.energy, specular=Estimate(specular, 0.0)),
    )


def beam(domain, x, relative_error=0.0):
    """A pencil beam down into the block at (x, 25) mm, by diffusion theory."""
    offsets = centers(domain) - (x, 25.0, 0.0)
    fluence = fluence_semi_infinite(np.hypot(offsets[..., 0], offsets[..., 1]), offsets[..., 2], TISSUE)
    source = Pencil(position_mm=(x, 25.0, -1.0), direction=(0, 0, 2))
    return run_of(domain, source, fluence, relative_error, SPECULAR)


@pytest.fixture(scope="module")
def found():
    return sensitivity(beam(DOMAIN, 25.0), beam(DOMAIN, 25.0 + SEPARATION))


# -- what it is -------------------------------------------------------------------------------------------------------


def test_the_sum_is_the_mean_path_of_diffusion_theory(found):
    expected = mean_path_semi_infinite(SEPARATION, transport_mean_free_path_mm(TISSUE), TISSUE)
    # theory counts the light between the surface and the extrapolated boundary too, where there is no tissue, and a D
    # that is 2 % less than that of transport
    assert float(expected) * 0.92 < found.mean_path_mm < float(expected)
    assert (found.jacobian_mm <= 0).all()


def test_it_is_normalized_by_the_fluence_at_the_detector(found):
    expected = fluence_semi_infinite(SEPARATION, transport_mean_free_path_mm(TISSUE), TISSUE)
    expected *= (1 - SPECULAR) / TISSUE.n**2
    assert found.detected.value == pytest.approx(float(expected), rel=0.05)  # D is that of transport, 2 % larger


@pytest.mark.parametrize("size", [(1.0, 1.25, 1.0), (0.8, 1.0, 1.5)])
def test_voxels_need_not_be_cubes_nor_be_stored_from_left_to_right(found, size):
    shape = tuple(round(n / s) for n, s in zip((64, 50, 36), size, strict=True))
    for flip in (False, True):
        domain = block(shape, size, flip)
        other = sensitivity(beam(domain, 25.0), beam(domain, 25.0 + SEPARATION))
        assert other.mean_path_mm == pytest.approx(found.mean_path_mm, rel=0.03)


def test_in_an_infinite_medium_the_sum_is_the_derivative_of_its_fluence():
    absorbing = dataclasses.replace(TISSUE, mua_per_mm=0.05)
    domain = dataclasses.replace(block((60, 40, 40)), media=(absorbing, dataclasses.replace(absorbing, label=2)))
    ends = [(24.0, 20.0, 20.0), (36.0, 20.0, 20.0)]
    distances = [np.linalg.norm(centers(domain) - end, axis=-1) for end in ends]
    runs = [
        run_of(domain, Isotropic(position_mm=end), fluence_infinite(distance, absorbing))
        for end, distance in zip(ends, distances, strict=True)
    ]
    expected = 12.0 / (2 * np.sqrt(0.05 * diffusion_coefficient_mm(absorbing)))  # -d ln(exp(-mu r) / r) / d mu_a
    # these fluences decay as in diffusion, real ones as in transport: with a D that is larger
    transport = 0.05 / float(_asymptotic_decay(np, 0.05, 1.0)) ** 2
    expected *= diffusion_coefficient_mm(absorbing) / transport
    assert sensitivity(*runs).mean_path_mm == pytest.approx(expected, rel=0.03)


def test_source_and_detector_can_be_exchanged(found):
    other = sensitivity(beam(DOMAIN, 25.0 + SEPARATION), beam(DOMAIN, 25.0))
    np.testing.assert_allclose(other.jacobian_mm, found.jacobian_mm, rtol=1e-4)


def test_it_is_deepest_between_source_and_detector(found):
    depth = centers(found.domain)[..., 2]
    weights = -found.jacobian_mm
    mean_depth = (weights * depth).sum((1, 2)) / weights.sum((1, 2))
    assert mean_depth[31] > mean_depth[25]
    assert mean_depth[31] > mean_depth[38]


def test_labels_share_the_path(found):
    paths, shares = found.path_by_label_mm, found.share_by_label()
    assert set(paths) == {1, 2}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert paths[2] == pytest.approx(-found.jacobian_mm[:, :, 9:].sum(dtype=np.float64), rel=1e-6)
    assert shares[2] == pytest.approx(paths[2] / found.mean_path_mm)


def test_it_agrees_with_the_paths_of_detected_photons():
    domain = block((44, 36, 28))
    tissue = dataclasses.replace(TISSUE, mus_per_mm=1.0, g=0.0)
    domain = dataclasses.replace(domain, media=(tissue, dataclasses.replace(tissue, label=2)))
    settings = LightSettings(photons=30_000, time_gates_ns=(0.0, 5.0), seed=4)
    here, there = ((x, 18.0, -0.5) for x in (18.0, 26.0))
    detectors = (Detector(position_mm=(26.0, 18.0, 0.0), radius_mm=1.5),)
    runs = [
        simulate(domain, Pencil(position_mm=place), settings, detectors=detectors, device="cpu")
        for place in (here, there)
    ]
    found = sensitivity(*runs)
    detected = runs[0].detected
    totals = detected.path_mm.sum(axis=1)
    path = detected.mean_path_mm().sum()
    error = np.sqrt((detected.weight**2 * (totals - path) ** 2).sum()) / detected.weight.sum()
    ours = found.mean_path_mm * found.detected.error / found.detected.value
    assert len(detected) > 100
    assert abs(found.mean_path_mm - path) < 3 * np.hypot(error, ours) + 0.03 * path  # 3 %: diffusion theory at 8 mm


# -- errors -----------------------------------------------------------------------------------------------------------


def test_errors_of_both_fluences_and_of_the_normalization_count():
    noisy = sensitivity(beam(DOMAIN, 25.0, 0.03), beam(DOMAIN, 39.0, 0.04))
    np.testing.assert_allclose(noisy.relative_error, np.sqrt(2 * (0.03**2 + 0.04**2)), rtol=1e-3)
    np.testing.assert_allclose(noisy.error_mm, -noisy.jacobian_mm * noisy.relative_error)


def test_uncertain_voxels_can_be_masked():
    source, detector = beam(DOMAIN, 25.0, 0.1), beam(DOMAIN, 39.0)
    source.fluence_error[:10] = source.fluence[:10]
    source.gates[10:12] = 0.0
    found = sensitivity(source, detector)
    masked = found.masked_mm(0.5)
    assert np.isnan(masked[:12]).all()
    np.testing.assert_array_equal(masked[12:], found.jacobian_mm[12:])
    np.testing.assert_array_equal(found.masked_mm(), found.masked_mm(0.2))
    assert np.isinf(found.relative_error[10:12]).all()
    assert (found.jacobian_mm[10:12] == 0).all()
    assert np.isnan(found.error_mm[10:12]).all()
    with pytest.raises(InvalidInput, match="greater than 0"):
        found.masked_mm(0.0)


def test_deep_tissue_does_not_underflow():
    source, detector = beam(DOMAIN, 25.0), beam(DOMAIN, 39.0)
    for run in (source, detector):
        run.gates[:, :, 30:] = 1e-22  # the product is below the smallest single
    assert (sensitivity(source, detector).jacobian_mm[:, :, 30:] < 0).all()


# -- what cannot be ---------------------------------------------------------------------------------------------------


def test_runs_in_different_tissue_are_refused():
    source = beam(DOMAIN, 25.0)
    shift = np.zeros((4, 4))
    shift[0, 3] = 0.2
    moved = dataclasses.replace(DOMAIN, affine=DOMAIN.affine + shift)
    relabeled = dataclasses.replace(DOMAIN, labels=np.ones_like(DOMAIN.labels))
    darker = dataclasses.replace(DOMAIN, media=(TISSUE, dataclasses.replace(TISSUE, label=2, mua_per_mm=0.1)))
    uneven = dataclasses.replace(DOMAIN, mua_per_mm=np.full(DOMAIN.shape, 0.02))
    for other, message in (
        (block((64, 50, 35)), r"grids of \(64, 50, 36\) and \(64, 50, 35\)"),
        (moved, "lie elsewhere"),
        (relabeled, "different labels"),
        (darker, "different optical properties"),
        (uneven, "different optical properties"),
    ):
        with pytest.raises(InvalidInput, match=message):
            sensitivity(source, dataclasses.replace(beam(DOMAIN, 39.0), domain=other))


def test_names_and_sources_of_media_may_differ():
    named = dataclasses.replace(DOMAIN, media=tuple(dataclasses.replace(m, name="x", source="y") for m in DOMAIN.media))
    assert sensitivity(beam(DOMAIN, 25.0), beam(named, 39.0)).mean_path_mm > 0


def test_a_detector_without_light_is_refused():
    source, detector = beam(DOMAIN, 25.0), beam(DOMAIN, 39.0)
    dark = dataclasses.replace(source, gates=np.zeros_like(source.gates))
    with pytest.raises(InvalidInput, match=r"no light of the source reached the detector at \(39, 25, 0\) mm"):
        sensitivity(dark, detector)


def test_a_detector_that_looks_away_or_into_clear_tissue_is_refused():
    away = dataclasses.replace(beam(DOMAIN, 39.0), source=Pencil(position_mm=(39.0, 25.0, -1.0), direction=(0, 0, -1)))
    with pytest.raises(InvalidInput, match="hits no tissue"):
        sensitivity(beam(DOMAIN, 25.0), away)
    clear = dataclasses.replace(DOMAIN, media=(Medium(mua_per_mm=0.01), dataclasses.replace(TISSUE, label=2)))
    with pytest.raises(InvalidInput, match="at label 1, whose reduced scattering is 0 1/mm"):
        sensitivity(beam(clear, 25.0), beam(clear, 39.0))


def test_continuous_media_give_the_width_of_the_shells():
    continuous = dataclasses.replace(
        DOMAIN, mua_per_mm=np.full(DOMAIN.shape, 0.02), mus_per_mm=np.full(DOMAIN.shape, 10.0)
    )
    found = sensitivity(beam(continuous, 25.0), beam(continuous, 39.0))
    assert found.mean_path_mm == pytest.approx(sensitivity(beam(DOMAIN, 25.0), beam(DOMAIN, 39.0)).mean_path_mm)
