"""From diffusion tensors to scattering tensors: axes, grids, calibration, and what is refused."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import components, matrices
from napari_gpubio.light.guide import diffusion_guide, guided_steps
from napari_gpubio.light.io import load_result, save_result
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.profile import depth_profile, theory_curve
from napari_gpubio.light.run import simulate, simulate_steps
from napari_gpubio.light.sensitivity import sensitivity
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.spectrum import reweighted
from napari_gpubio.light.trust import findings
from napari_gpubio.mcx.io.cases import write_mcx
from napari_gpubio.optics.anisotropy import FiberCalibration, fiber_map, scattering_of, with_fiber_map, with_fibers
from napari_gpubio.optics.anisotropy.theory import uniaxial_diffusion_mm
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Pencil
from napari_gpubio.probes.jacobians.adjoint import adjoint_jacobians
from napari_gpubio.probes.jacobians.replay import replay
from tests.light.voxel_samples import make_domain, turned_affine
from tests.runs import finished

GRAY = Medium(label=1, name="gray matter", mua_per_mm=0.02, mus_per_mm=8.0, g=0.9)
WHITE = Medium(label=2, name="white matter", mua_per_mm=0.01, mus_per_mm=40.0, g=0.9)
SHAPE = (6, 7, 8)
AXIS = np.array([0.6, 0.0, 0.8])
MIDDLE = (3, 3, 4)


def brain(**more):
    labels = np.ones(SHAPE, np.uint8)
    labels[2:5, 2:5, 2:6] = 2
    return make_domain(labels, GRAY, WHITE, **more)


def diffusion(axis=AXIS, shape=SHAPE, along=1.7e-3, across=0.3e-3):
    """Tensors of fibers along an axis, in six components."""
    tensor = across * np.eye(3) + (along - across) * np.outer(axis, axis)
    return np.broadcast_to(components(tensor), (*shape, 6)).copy()


def axis_of(domain, voxel=MIDDLE):
    """Direction of least scattering in a voxel."""
    values, vectors = np.linalg.eigh(matrices(domain.mus_tensor_per_mm[voxel]))
    assert values[0] < 0.99 * values[1]
    return vectors[:, 0]


# -- fibers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affine", [None, turned_affine()])
@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_light_scatters_least_along_the_fibers_in_world_axes(affine, unit):
    domain = brain(affine=affine)
    fibrous = with_fibers(domain, unit * diffusion(), domain.affine, labels=[2])
    assert abs(axis_of(fibrous) @ AXIS) == pytest.approx(1.0, abs=1e-6)
    there = fibrous.mus_tensor_per_mm[..., 0] > 0
    np.testing.assert_array_equal(there, domain.labels == 2)
    assert "36 voxels of label 2" in fibrous.notes[-1]
    assert "no wavelength" in fibrous.notes[-1]
    # photons meet it along the axes of the grid
    numbers = VoxelProblem(fibrous, Pencil(), LightSettings()).tensors.numbers
    lower = np.zeros((3, 3))
    lower.T[np.triu_indices(3)] = numbers[1, :6]
    grid = lower @ lower.T
    own = domain.direction_to_grid(AXIS)
    assert own @ grid @ own == pytest.approx(np.linalg.eigvalsh(grid)[0], rel=1e-5)


def test_tensors_on_another_grid_are_interpolated():
    """Turned, of other voxels, and without tensors in a corner; a uniform field stays what it is."""
    domain = brain()
    other = turned_affine()
    other[:3, 3] = 3.0 - other[:3, :3] @ (9.5, 9.5, 9.5)  # its middle in the middle of the brain
    tensors = diffusion(shape=(20, 20, 20))
    tensors[:10] = 0
    fibrous = with_fibers(domain, tensors, other)
    has = fibrous.mus_tensor_per_mm[..., 0] > 0
    assert 0.3 < has.mean() < 0.7
    same = with_fibers(domain, diffusion(), domain.affine)
    np.testing.assert_allclose(fibrous.mus_tensor_per_mm[has], same.mus_tensor_per_mm[has], rtol=1e-4, atol=1e-4)


def test_interpolation_is_that_of_logarithms():
    domain = make_domain((1, 1, 1), GRAY)
    both = (diffusion(along=along, across=1.0, shape=(1, 1, 1)) for along in (4.0, 1.0))
    tensors = np.concatenate(list(both))
    affine = np.array(domain.affine)
    affine[0, 3] -= 0.5
    fa = fiber_map(domain, tensors, affine).fa[0, 0, 0]
    assert fa == pytest.approx(1 / np.sqrt(6), rel=1e-6)  # of the eigenvalues 2, 1, 1: geometric means


@pytest.mark.parametrize("axes", ["world", "voxel", "fsl"])
def test_axes_of_the_components(axes):
    domain = brain(affine=turned_affine())  # left-handed, so FSL's axes are the voxels'
    own = AXIS if axes == "world" else domain.direction_to_grid(AXIS)
    fibrous = with_fibers(domain, diffusion(own), domain.affine, axes=axes)
    assert abs(axis_of(fibrous) @ AXIS) == pytest.approx(1.0, abs=1e-6)


def test_full_matrices_and_six_components_are_the_same():
    domain = brain()
    a, b = (with_fibers(domain, t, domain.affine).mus_tensor_per_mm for t in (diffusion(), matrices(diffusion())))
    np.testing.assert_array_equal(a, b)


def test_a_second_call_keeps_the_tensors_of_the_first():
    domain = brain()
    both = with_fibers(
        with_fibers(domain, diffusion(), domain.affine, labels=[1]), diffusion(), domain.affine, labels=[2]
    )
    there = both.mus_tensor_per_mm[..., 0] > 0
    np.testing.assert_array_equal(there, domain.labels > 0)
    with pytest.raises(InvalidInput, match="'product' already"):
        with_fibers(both, diffusion(), domain.affine, model="free")


def test_labels_may_come_from_an_iterator():
    domain = brain()
    fibrous = with_fibers(domain, diffusion(), domain.affine, labels=iter([2]))
    np.testing.assert_array_equal(fibrous.mus_tensor_per_mm[..., 0] > 0, domain.labels == 2)


@pytest.mark.parametrize("shift_mm", [0.0, 0.2])
def test_bad_tensors_count_as_none_outside_the_tissue(shift_mm):
    """Fits have them at the rim of the head."""
    domain, tensors = brain(), diffusion()
    tensors[0, 0, 0, :3] = -1e-3
    affine = domain.affine.copy()
    affine[:3, 3] += shift_mm
    fibrous = with_fibers(domain, tensors, affine, labels=[2])
    assert np.count_nonzero(fibrous.mus_tensor_per_mm[..., 0]) == 36
    with pytest.raises(InvalidInput, match="1 of 336 diffusion tensors are not positive definite"):
        with_fibers(domain, tensors, affine)


def test_the_outermost_voxels_are_interpolated_where_most_of_their_neighbors_have_tensors():
    domain = make_domain(np.ones((4, 4, 4), np.uint8), GRAY)
    coarse = np.array(domain.affine)
    coarse[:3, :3] *= 2
    coarse[:3, 3] += 0.5 * domain.affine[:3, :3].sum(axis=1)
    fibrous = with_fibers(domain, diffusion(shape=(2, 2, 2)), coarse)
    assert fibrous.mus_tensor_per_mm[1, 1, 1, 0] > 0
    assert fibrous.mus_tensor_per_mm[0, 1, 1, 0] > 0


def test_coefficients_of_ones_own_are_not_called_published():
    domain = brain()
    own = with_fibers(domain, diffusion(), domain.affine, calibration=FiberCalibration(musp_across_per_mm=5.0))
    assert "given by the user" in own.notes[-1]


def test_g_voxel_by_voxel_and_tensors_are_refused_together():
    domain = brain(g=np.full(SHAPE, 0.9, np.float32))
    with pytest.raises(InvalidInput, match="g voxel by voxel"):
        with_fibers(domain, diffusion(), domain.affine)


def test_voxels_without_fibers_scatter_by_their_label():
    domain, tensors = brain(), diffusion()
    tensors[:3] = diffusion(along=1e-3, across=1e-3)[:3]
    tensors[3] = np.nan
    fibrous = with_fibers(domain, tensors, domain.affine)
    assert not fibrous.mus_tensor_per_mm[:4].any()
    assert (fibrous.mus_tensor_per_mm[4:, ..., 0] > 0).all()


def test_a_map_of_fibers_can_be_kept_while_optical_properties_change():
    domain = brain()
    fibers = fiber_map(domain, diffusion(), domain.affine)
    other = domain.with_optics((dataclasses.replace(GRAY, mus_per_mm=9.0), WHITE))
    kept = with_fiber_map(other, fibers, labels=[1])
    again = with_fibers(other, diffusion(), domain.affine, labels=[1])
    np.testing.assert_array_equal(kept.mus_tensor_per_mm, again.mus_tensor_per_mm)
    assert kept.notes == again.notes


# -- calibration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["product", "free"])
@pytest.mark.parametrize("coherence", [0.0, 0.37, 1.0])
def test_the_mean_diffusion_of_a_label_is_kept(model, coherence):
    """And the ratio is the calibration's where fibers are coherent."""
    g = 0.0 if model == "product" else WHITE.g
    across, along = scattering_of(coherence, WHITE, FiberCalibration(), model)
    d_across, d_along = uniaxial_diffusion_mm(across, along, model, g)
    assert (2 * d_across + d_along) / 3 == pytest.approx(1 / (3 * WHITE.musp_per_mm), rel=1e-4)
    if coherence == 1.0:
        assert d_along / d_across == pytest.approx(3.52 / 1.57, rel=1e-6)
    if coherence == 0.0:
        assert across == along == pytest.approx(WHITE.musp_per_mm if model == "product" else WHITE.mus_per_mm)


@pytest.mark.parametrize("model", ["product", "free"])
def test_absolute_coefficients_go_from_the_label_s_to_those_of_white_matter(model):
    calibration = FiberCalibration(keep_mean=False)
    across, along = scattering_of(np.array([0.0, 1.0]), WHITE, calibration, model)
    assert across[0] == along[0] == pytest.approx(WHITE.musp_per_mm if model == "product" else WHITE.mus_per_mm)
    d = uniaxial_diffusion_mm(across[1], along[1], model, 0.0 if model == "product" else WHITE.g)
    np.testing.assert_allclose(1 / (3 * np.array(d)), (3.52, 1.57), rtol=1e-6)


def test_anisotropy_grows_with_fa_up_to_the_calibration_s():
    domain = brain()
    ratios = []
    for along in (0.5e-3, 0.8e-3, 1.7e-3, 3e-3):
        fibrous = with_fibers(domain, diffusion(along=along), domain.affine)
        values = np.linalg.eigvalsh(matrices(fibrous.mus_tensor_per_mm[MIDDLE]))
        ratios.append(values[0] / values[2])
    assert ratios[0] > ratios[1] > ratios[2] == pytest.approx(ratios[3], rel=1e-4)


# -- what is refused --------------------------------------------------------------------------------------------------


def spoiled(value, voxel=(1, 2, 3), component=0):
    tensors = diffusion()
    tensors[voxel][component] = value
    return tensors


@pytest.mark.parametrize(
    ("tensors", "more", "message"),
    [
        (spoiled(-1e-3), {}, r"1 of 336 diffusion tensors are not positive definite \(the first, in voxel \(1, 2, 3\)"),
        (spoiled(np.nan), {"labels": [1]}, r"1 voxels of the chosen labels .* not finite .*\(1, 2, 3\)"),
        (diffusion()[..., :5], {}, r"shape \(6, 7, 8, 5\)"),
        (diffusion(), {"labels": [7]}, "label 7 does not occur; choose of 1, 2"),
        (diffusion(), {"labels": []}, "no label is chosen"),
        (diffusion(), {"axes": "image"}, "axes is 'image'"),
        (diffusion(), {"model": "mixture"}, "'mixture' cannot be calibrated"),
        (diffusion(), {"model": "HG"}, "'HG'; choose"),
        (np.zeros((*SHAPE, 6)), {}, "none of the 336 tissue voxels"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tensors, more, message):
    domain = brain()
    with pytest.raises(InvalidInput, match=message):
        with_fibers(domain, tensors, domain.affine, **more)


def test_tensors_of_another_place_are_refused_with_both_places():
    domain = brain()
    affine = np.array(domain.affine)
    affine[:3, 3] += 100
    with pytest.raises(InvalidInput, match=r"tensors lie in 100 to 106 x .* the tissue in 0\.5 to 5\.5 x"):
        with_fibers(domain, diffusion(), affine)


@pytest.mark.parametrize(
    "numbers", [{"musp_across_per_mm": 0.0}, {"musp_along_per_mm": np.inf}, {"full_fa": 1.5}, {"full_fa": 0.0}]
)
def test_calibrations_out_of_range_are_refused(numbers):
    with pytest.raises(InvalidInput, match=next(iter(numbers))):
        FiberCalibration(**numbers)
    domain = brain()
    with pytest.raises(InvalidInput, match="no tensor makes light scatter 900"):
        with_fibers(domain, diffusion(), domain.affine, calibration=FiberCalibration(musp_across_per_mm=900))


# -- what a domain with tensors goes through --------------------------------------------------------------------------


def run(domain, source=None, **settings):
    chosen = LightSettings(**{"photons": 400, "batches": 4, **settings})
    return simulate(domain, source or Pencil(position_mm=(3.0, 3.5, 0.0)), chosen, device="cpu")


@pytest.fixture(scope="module")
def fibrous():
    return with_fibers(brain(), diffusion(), brain().affine)


def test_results_keep_tensors_in_files(fibrous, tmp_path):
    result = run(fibrous.with_tensors(10 * fibrous.mus_tensor_per_mm, "free"))
    save_result(tmp_path / "r.npz", result)
    found = load_result(tmp_path / "r.npz")
    np.testing.assert_array_equal(found.domain.mus_tensor_per_mm, result.domain.mus_tensor_per_mm)
    assert found.domain.scattering_model == found.parameters["scattering_model"] == "free"
    more = simulate(
        found.domain, found.source, dataclasses.replace(found.settings, photons=500), device="cpu", resume=found
    )
    assert more.launched == 500
    with pytest.raises(InvalidInput, match="another simulation"):
        simulate(brain(), found.source, found.settings, device="cpu", resume=found)


def test_a_result_names_what_is_not_reciprocal(fibrous):
    free = fibrous.with_tensors(fibrous.mus_tensor_per_mm, "free")
    assert any("not reciprocal" in finding.sentence for finding in findings(run(free)))
    assert not any("not reciprocal" in finding.sentence for finding in findings(run(fibrous)))
    with pytest.raises(InvalidInput, match="not reciprocal"):
        sensitivity(run(free), run(free, Pencil(position_mm=(3.0, 3.5, 8.0), direction=(0, 0, -1))))
    with pytest.raises(InvalidInput, match="different optical properties"):
        sensitivity(run(fibrous), run(free))


def test_what_takes_scattering_as_isotropic_says_so(fibrous, tmp_path):
    source, settings = Pencil(position_mm=(3.0, 3.5, 0.0)), LightSettings(photons=400, batches=4, halves=True)
    with pytest.raises(InvalidInput, match="alike in all directions"):
        diffusion_guide(fibrous, source, settings, device="cpu")
    _, result = finished(guided_steps(simulate_steps(fibrous, source, settings, device="cpu"), device="cpu"))
    assert result.guide is None
    assert any("no guide" in finding.sentence for finding in findings(result))
    with pytest.raises(InvalidInput, match="alike in all directions"):
        theory_curve(result, depth_profile(result).points_mm)
    with pytest.raises(InvalidInput, match="tensors cannot be written for MCX"):
        write_mcx(tmp_path / "case.json", fibrous, source, settings)
    with pytest.raises(InvalidInput, match="give one"):
        fibrous.with_optics(fibrous.media, mus_per_mm=np.ones(SHAPE))


@pytest.mark.long  # a build of its own
def test_photons_along_fibers_are_replayed_and_tell_of_absorption_only(fibrous):
    place = Detector(position_mm=(3.0, 3.5, 0.0), radius_mm=3.0)
    settings = LightSettings(photons=2000, batches=4)
    source = Pencil(position_mm=(3.0, 3.5, 0.0))
    result = simulate(fibrous, source, settings, detectors=[place], device="cpu")
    found = replay(result, of=("mua", "mus"), device="cpu")
    expected = -result.detected.mean_path_mm()
    sums = [found.of("mua").values[0][fibrous.labels == label].sum() for label in (1, 2)]
    np.testing.assert_allclose(sums, expected, rtol=1e-4)
    along = fibrous.mus_tensor_per_mm[..., 0] > 0
    assert np.isnan(found.of("mus").values[0][along]).all()
    media = [dataclasses.replace(medium, mus_per_mm=1.1 * medium.mus_per_mm) for medium in fibrous.media]
    with pytest.raises(InvalidInput, match="one common factor"):
        reweighted(result, media)


def test_adjoint_jacobians_are_of_absorption_only(fibrous):
    opposite = Pencil(position_mm=(3.0, 3.5, 8.0), direction=(0, 0, -1))
    runs = run(fibrous, photons=4000), run(fibrous, opposite, photons=4000, seed=2)
    with pytest.raises(InvalidInput, match="not known where scattering depends on direction"):
        adjoint_jacobians(*runs, coefficients=("mua", "musp"))
