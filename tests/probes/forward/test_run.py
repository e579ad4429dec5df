"""Forward models against exact paths of detected photons, their errors, sparse rows, Stop, resume, and bad input."""

import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.sources import Pencil
from napari_gpubio.probes.forward import ForwardSettings, Pair, forward_model, forward_model_steps, place
from napari_gpubio.probes.forward.model import Head, labels_named
from napari_gpubio.probes.jacobians.replay import replay
from tests.described import check_described
from tests.light.voxel_samples import MAX_Z, make_domain
from tests.probes.forward.samples import FEW, SHAPE, block, medium, probe


@pytest.fixture(scope="module")
def found():
    return forward_model(block(), probe(), FEW, device="cpu")


# -- what it is -------------------------------------------------------------------------------------------------------


def test_rows_are_mean_paths_of_pairs(found):
    assert found.channels == ("S1D1", "S1D2", "S2D1")
    assert found.wavelengths_nm == (760.0, 850.0)
    np.testing.assert_allclose(found.separations_mm, [11.0, 15.0, np.hypot(11, 4)], atol=1e-6)
    for part in found.parts:
        matrix = found.matrix(part.wavelength_nm)
        assert matrix.shape == (3, np.prod(SHAPE))
        np.testing.assert_allclose(matrix.sum(axis=1), part.label_paths_mm.sum(axis=1), rtol=1e-4)
        assert (part.label_errors_mm > 0).all()
        assert part.reached.all()
    paths = [part.label_paths_mm.sum(axis=1) for part in found.parts]
    assert (paths[0] > paths[1]).all()  # more absorption, shorter paths
    assert (paths[0][1] > paths[0][0]).all()


def test_a_volume_has_its_row(found):
    volume = found.volume("S1D2", 850)
    assert volume.shape == SHAPE
    by_label = found.path_by_label_mm("S1D2", 850)
    for label in (1, 2):
        inside = np.asarray(found.head.labels) == label
        assert volume[inside].sum() == pytest.approx(by_label[label].value, rel=1e-4)
    both = found.region(850, (1, 2))[1]
    assert both.value == pytest.approx(sum(estimate.value for estimate in by_label.values()))
    assert 0 < both.error < sum(estimate.error for estimate in by_label.values())


def check_against_detected_photons(photons, detected, slack):
    """Paths in both labels are those of detected photons, within some percent and three standard errors of both."""
    settings = ForwardSettings(photons=photons, groups=8)
    part = forward_model(block(), probe(pairs=(Pair(0, 0),)), settings, device="cpu").parts[0]
    detectors = (Detector(position_mm=(25.0, 15.0, 0.0), radius_mm=2.0, normal=(0, 0, -1)),)
    source, light = Pencil(position_mm=(14.0, 15.0, -0.01)), LightSettings(photons=detected, seed=50)
    found = simulate(block().at(760), source, light, detectors=detectors, device="cpu").detected
    assert len(found) > 60
    exact, weight = found.mean_path_mm(), found.weight.astype(np.float64)
    errors = np.sqrt(np.square(weight) @ np.square(found.path_mm - exact)) / weight.sum()
    error = np.hypot(errors, part.label_errors_mm[0])
    assert (np.abs(part.label_paths_mm[0] - exact) < slack * exact + 3 * error).all()


def test_it_agrees_with_the_paths_of_detected_photons():
    check_against_detected_photons(8_000, 24_000, 0.05)


@pytest.mark.long
def test_it_agrees_closely_with_the_paths_of_many_detected_photons():
    check_against_detected_photons(200_000, 600_000, 0.03)


@pytest.mark.long
def test_voxels_beyond_three_mean_free_paths_agree_with_replay():
    """Within 5 %, in sums over slabs across the way from source to detector."""
    check_against_replay(photons=200_000, replayed=600_000, slack=0.05)


def check_against_replay(photons, replayed, slack):
    settings = ForwardSettings(photons=photons, threshold=0.0)
    model = forward_model(block(), probe(pairs=(Pair(0, 1),)), settings, device="cpu")
    ends = model.placement.probe.positions_mm[[0, 3]]
    detectors = (Detector(position_mm=tuple(ends[1]), radius_mm=2.0, normal=(0, 0, -1)),)
    source = Pencil(position_mm=(*ends[0][:2], -0.01))
    light = LightSettings(photons=replayed, seed=50)
    traced = simulate(block().at(760), source, light, detectors=detectors, device="cpu")
    exact = replay(traced, of=("mua",), device="cpu").of("mua")
    middles = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), -1) + 0.5
    far = np.min([np.linalg.norm(middles - end, axis=-1) for end in ends], axis=0) > 3 / 1.02
    error = np.abs(exact.label_errors[0] / exact.label_sums[0]).max()
    for first in (8, 16, 20, 24):
        band = far & (middles[..., 0] > first) & (middles[..., 0] < first + 8)
        ratio = model.volume(0, 760)[band].sum() / -exact.values[0][band].sum()
        assert abs(ratio - 1) < slack + 4 * error, (first, ratio, error)


def test_the_absorption_of_a_wavelength_changes_its_rows():
    different = block(top_mua=(0.02, 0.02), bottom_mua=(0.02, 0.05))
    model = forward_model(different, probe(pairs=(Pair(0, 1),)), FEW, device="cpu")
    share = [part.label_paths_mm[0, 1] / part.label_paths_mm[0].sum() for part in model.parts]
    assert share[1] < 0.8 * share[0]


@pytest.mark.long
def test_errors_are_the_spread_over_seeds():
    one = dataclasses.replace(FEW, photons=1600, groups=8, wavelengths_nm=(760,))
    pair = probe(pairs=(Pair(0, 0),))
    paths, errors = [], []
    for seed in range(18):
        model = forward_model(block(), pair, dataclasses.replace(one, seed=1000 * seed + 7), device="cpu")
        paths.append(model.parts[0].label_paths_mm[0])
        errors.append(model.parts[0].label_errors_mm[0])
    ratio = np.sqrt(np.square(errors).mean(axis=0)) / np.std(paths, axis=0, ddof=1)
    assert ((ratio > 0.6) & (ratio < 1.6)).all(), ratio  # the spread of 18 is known to a sixth


def test_wavelengths_share_their_random_numbers():
    """So that the difference of two wavelengths has less noise than each."""
    same = block(top_mua=(0.02, 0.02), bottom_mua=(0.02, 0.02))
    model = forward_model(same, probe(pairs=(Pair(0, 0),)), FEW, device="cpu")
    np.testing.assert_array_equal(model.parts[0].label_paths_mm, model.parts[1].label_paths_mm)


# -- columns ----------------------------------------------------------------------------------------------------------


def test_labels_and_a_mask_choose_the_columns(found):
    mask = np.zeros(SHAPE, np.uint8)
    mask[10:30] = 1
    model = forward_model(block(), probe(), FEW, labels=("gray matter",), mask=mask, device="cpu")
    labels = np.asarray(model.head.labels).ravel()[model.voxels]
    assert set(labels.tolist()) == {2}
    assert mask.ravel()[model.voxels].all()
    whole = found.volume("S1D1", 760)
    wanted = np.where((mask == 1) & (np.asarray(model.head.labels) == 2), whole, 0)
    np.testing.assert_allclose(model.volume("S1D1", 760), wanted, rtol=1e-5)
    np.testing.assert_array_equal(model.parts[0].label_paths_mm, found.parts[0].label_paths_mm)  # of all voxels


def test_small_values_are_dropped_and_it_is_reported_how_much_is_kept(found):
    model = forward_model(block(), probe(), dataclasses.replace(FEW, threshold=0.05), device="cpu")
    for part, whole in zip(model.parts, found.parts, strict=True):
        assert len(part.values) < len(whole.values) / 2
        for row in range(3):
            values = part.values[part.row_starts[row] : part.row_starts[row + 1]]
            assert values.min() >= 0.0499 * values.max()
            assert values.sum() / whole.label_paths_mm[row].sum() == pytest.approx(part.kept[row], rel=1e-4)
            assert 0.2 < part.kept[row] < 1


def test_a_mask_without_voxels_is_refused():
    for mask, message in ((np.zeros(SHAPE), "no voxel of label 1, 2 is in the mask"), (np.ones((3, 3, 3)), "shape")):
        with pytest.raises(InvalidInput, match=message):
            forward_model(block(), probe(), FEW, mask=mask, device="cpu")
    with pytest.raises(InvalidInput, match=r"no label 'CSF'; there are 1 \(scalp\), 2 \(gray matter\)"):
        forward_model(block(), probe(), FEW, labels=("CSF",), device="cpu")


# -- stop and resume --------------------------------------------------------------------------------------------------


def test_a_stopped_model_keeps_what_was_done_and_goes_on(found):
    stop = threading.Event()
    steps = forward_model_steps(block(), probe(), FEW, device="cpu", stop=stop)
    try:
        while True:
            step = next(steps)
            if step.done >= 2.5 * FEW.photons and "760" in step.message:  # two or three of four optodes
                stop.set()
    except StopIteration as end:
        model = end.value
    assert not model.complete
    assert len(model.parts) == 1
    part = model.parts[0]
    assert not part.done.all()
    assert np.isnan(part.label_paths_mm[~part.done]).all()
    np.testing.assert_allclose(part.label_paths_mm[part.done], found.parts[0].label_paths_mm[part.done], rtol=1e-6)
    whole = forward_model(block(), probe(), FEW, device="cpu", resume=model)
    assert whole.complete
    for mine, expected in zip(whole.parts, found.parts, strict=True):
        np.testing.assert_array_equal(mine.values, expected.values)
        np.testing.assert_array_equal(mine.label_errors_mm, expected.label_errors_mm)


def test_another_model_cannot_be_resumed(found):
    with pytest.raises(InvalidInput, match="has no state"):
        forward_model(block(), probe(), FEW, device="cpu", resume=found)
    stop = threading.Event()
    stop.set()
    steps = forward_model_steps(block(), probe(), FEW, device="cpu", stop=stop)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        stopped = end.value
    assert not stopped.parts[0].done.any()
    for head, given, settings, other in (
        (block(top_mua=(0.01, 0.01)), probe(), FEW, "other label 1 at 760 nm: mua 0.02/mm, .* has mua 0.01/mm"),
        (block(), probe(pairs=None), FEW, "other probe: no file .*, and this run has no file"),
        (block(), probe(), dataclasses.replace(FEW, seed=8), "other seed: 1, and this run has 8"),
        (dataclasses.replace(block(), labels=block().labels[..., ::-1]), probe(), FEW, "other labels: no file"),
    ):
        with pytest.raises(InvalidInput, match=f"the model to go on with was begun with {other}"):
            forward_model(head, given, settings, device="cpu", resume=stopped)


# -- what cannot be ---------------------------------------------------------------------------------------------------


def test_pairs_that_no_light_reaches_are_named_with_infinite_errors():
    dark = block(top_mua=(2.0, 2.0), bottom_mua=(2.0, 2.0))
    model = forward_model(dark, probe(), dataclasses.replace(FEW, photons=800), device="cpu")
    part = model.parts[0]
    assert not part.reached.any()
    assert (part.label_paths_mm == 0).all()
    assert np.isinf(part.label_errors_mm).all()
    assert len(part.values) == 0
    assert any("S1D1 760" in note for note in model.notes)
    assert np.isinf(model.region(760, (1,))[0].error)


def test_pairs_that_are_too_close_are_named():
    near = probe(detector_positions_mm=[(16.0, 15.0, 0.0), (29.0, 15.0, 0.0)])
    model = forward_model(block(), near, FEW, device="cpu")
    assert model.parts[0].close.tolist() == [True, False, True]
    assert any("S1D1" in note and "too close" in note for note in model.notes)
    assert model.unreached() == ()


def test_wavelengths_without_properties_are_refused():
    with pytest.raises(InvalidInput, match="label 1 has properties at 760, 850 nm, not at 700 nm"):
        forward_model(block(), probe(), ForwardSettings(wavelengths_nm=(700,)), device="cpu")
    with pytest.raises(InvalidInput, match="no wavelengths"):
        forward_model(block(), probe(wavelengths_nm=()), ForwardSettings(), device="cpu")


def test_only_pairs_within_a_separation():
    model = forward_model(block(), probe(), dataclasses.replace(FEW, longest_mm=12.0), device="cpu")
    assert model.channels == ("S1D1", "S2D1")
    with pytest.raises(InvalidInput, match=r"within 3 mm; the closest are 11\.0 mm apart"):
        forward_model(block(), probe(), dataclasses.replace(FEW, longest_mm=3.0), device="cpu")


def test_coarse_voxels_are_reported():
    head = block()
    fine = {1: medium(0.02), 2: medium(0.02)}
    strong = {label: dataclasses.replace(one, mus_per_mm=4.0) for label, one in fine.items()}
    small = dataclasses.replace(FEW, photons=400)
    model = forward_model(dataclasses.replace(head, tissues=strong), probe(), small, device="cpu")
    assert any("Voxels of 1 mm are large" in note for note in model.notes)
    model = forward_model(dataclasses.replace(head, tissues=fine), probe(), small, device="cpu")
    assert not any("are large" in note for note in model.notes)


def test_a_placed_probe_is_taken_as_it_is():
    placed = place(probe(), block().at(760))
    assert np.all(np.abs(placed.probe.positions_mm[:, 2]) < 1e-6)
    np.testing.assert_allclose(placed.moved_mm, [0, 0, 1.0, 0.4], atol=1e-6)
    np.testing.assert_allclose(placed.directions, np.tile([0, 0, 1.0], (4, 1)), atol=1e-6)
    model = forward_model(block(), placed, dataclasses.replace(FEW, photons=400), device="cpu")
    assert model.placement.probe.positions_mm == pytest.approx(placed.probe.positions_mm)
    assert MAX_Z


def test_a_name_that_labels_share_means_all_of_them():
    domain = make_domain(np.arange(1, 5, dtype=np.uint8).reshape(4, 1, 1), *(medium(0.1, n, "skull") for n in (1, 2)),
                         *(medium(0.1, n, "brain") for n in (3, 4)))  # fmt: skip
    assert labels_named(domain, ["Brain", 1]) == (3, 4, 1)
    with pytest.raises(InvalidInput, match="no label 'liver'"):
        labels_named(domain, ["liver"])


def test_a_head_takes_whole_numbers_of_any_type():
    given = block()
    head = Head(labels=given.labels.astype(np.float32), affine=given.affine, tissues=given.tissues)
    assert head.labels.dtype == np.uint8
    with pytest.raises(InvalidInput, match="range from -1"):
        Head(labels=given.labels.astype(np.int16) - 2, affine=given.affine, tissues=given.tissues)


def test_it_shows_itself(found):
    check_described(found, "mean paths by label", pictures=2)
