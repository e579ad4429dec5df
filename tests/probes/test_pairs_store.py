"""The store of fluences: voxels by label, sums over labels and shells, and rows, against plain sums."""

import functools
from itertools import pairwise

import numpy as np
import pytest

from napari_gpubio.core.chunks import advance_in_chunks
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.kernels.voxels import gpu
from napari_gpubio.optics.batches import joined
from napari_gpubio.optics.model import Medium
from napari_gpubio.probes.kernels.pairs import store as pairs_store
from napari_gpubio.probes.kernels.pairs.problem import OptodeProblem
from napari_gpubio.probes.kernels.pairs.store import FluenceStore, Rows, TissueVoxels
from tests.light.test_photon_backends import PENCIL, scene, settings
from tests.light.voxel_samples import make_domain

SHAPE, OPTODES, GROUPS = (4, 5, 6), 5, 3
LABELS = np.random.default_rng(3).integers(0, 4, SHAPE).astype(np.uint8) * 3  # 0, 3, 6, 9


@pytest.fixture
def store():
    media = tuple(Medium(label=label, mua_per_mm=0.1) for label in (3, 6, 9))
    made = FluenceStore(TissueVoxels(make_domain(LABELS, *media)), OPTODES, GROUPS)
    rng = np.random.default_rng(5)
    for optode in range(OPTODES):
        for group in range(GROUPS):
            tally = rng.integers(1, 1000, tuple(n + 2 for n in SHAPE)).astype(np.uint64)
            made.put(optode, group, tally.ravel(), 0.5)
            made.expected = getattr(made, "expected", {}) | {(optode, group): 0.5 * tally[1:-1, 1:-1, 1:-1]}
    return made


def volumes(store):
    """Shape (optodes, groups, X, Y, Z)."""
    rows = [[store.expected[o, g] for g in range(GROUPS)] for o in range(OPTODES)]
    return np.array(rows, np.float64)


def test_voxels_are_ordered_by_label(store):
    voxels = store.voxels
    assert len(voxels) == np.count_nonzero(LABELS)
    for label, part in zip((3, 6, 9), voxels.slices, strict=True):
        assert (LABELS.ravel()[voxels.flat[part]] == label).all()
    np.testing.assert_array_equal(voxels.positions(voxels.flat), np.arange(len(voxels)))
    assert (voxels.positions(np.flatnonzero(LABELS == 0)) == -1).all()
    np.testing.assert_allclose(store.values[1, 2], volumes(store)[1, 2].ravel()[voxels.flat], rtol=1e-6)


def test_sums_over_labels_are_those_of_products(store):
    sources, detectors = np.array([0, 2]), np.array([1, 3, 4])
    of_sources, of_detectors = store.label_sums(sources, detectors)
    whole = volumes(store)
    means = whole.mean(axis=1)
    for column, label in enumerate((3, 6, 9)):
        inside = label == LABELS
        for i, s in enumerate(sources):
            for j, d in enumerate(detectors):
                expected = [(whole[s, g] * means[d])[inside].sum() for g in range(GROUPS)]
                np.testing.assert_allclose(of_sources[i, j, :, column], expected, rtol=1e-5)
                expected = [(means[s] * whole[d, g])[inside].sum() for g in range(GROUPS)]
                np.testing.assert_allclose(of_detectors[i, j, :, column], expected, rtol=1e-5)


def test_sums_over_shells(store):
    chosen, weights = np.array([3, 17, 40]), np.array([[1.0, -2.0, 0.5], [0.0, 1.0, 1.0]])
    found = store.shell_sums(chosen, np.array([4, 1]), weights)
    assert found.shape == (2, GROUPS, 2)
    np.testing.assert_allclose(found[1], store.values[1][:, chosen] @ weights.T, rtol=1e-6)
    np.testing.assert_array_equal(store.near(chosen, 4), store.values[4][:, chosen])


@pytest.mark.parametrize("at_once", [1, 10**6])
@pytest.mark.parametrize("some", [False, True])
def test_rows_have_the_largest_products(store, monkeypatch, some, at_once):
    monkeypatch.setattr(pairs_store, "_ROW_VALUES", at_once)
    chosen = np.arange(0, len(store.voxels), 2) if some else None
    factors = np.array([1.0, 0.5, 2.0])
    store.choose(chosen, factors)
    detectors, scales = np.array([3, 1, 4]), np.array([10.0, 2.0, 7.0])
    rows = Rows(0, detectors, scales, 0.3)
    lengths = store.row_lengths(rows)
    columns, values = np.empty(lengths.sum(), np.int32), np.empty(lengths.sum(), np.float32)
    kept = store.write_rows(rows, columns, values)
    assert len(lengths) == len(kept) == 3
    means = volumes(store).mean(axis=1).reshape(OPTODES, -1)[:, store.voxels.flat]
    by_voxel = np.concatenate([np.full(p.stop - p.start, f) for p, f in zip(store.voxels.slices, factors, strict=True)])
    ends = lengths.cumsum()
    for begin, end, share, detector, scale in zip((0, *ends), ends, kept, detectors, scales, strict=False):
        products = (means[0] * means[detector] * by_voxel * scale)[slice(None) if chosen is None else chosen]
        expected = np.flatnonzero(products >= 0.3 * products.max())
        np.testing.assert_array_equal(columns[begin:end], expected)
        np.testing.assert_allclose(values[begin:end], products[expected], rtol=1e-5)
        assert share == pytest.approx(products[expected].sum() / products.sum(), rel=1e-5)


def test_means_follow_new_fluence(store):
    before = store.means()[2].copy()
    store.put(2, 0, np.full(np.prod([n + 2 for n in SHAPE]), 7000, np.uint64), 1.0)
    assert (store.means()[2] > before).all()


# -- runs on a GPU ----------------------------------------------------------------------------------------------------


def test_lack_of_memory_after_tracing_traces_no_photon_twice(fake_gpu):
    """Else groups of an optode would hold photons twice, or be missing."""
    pretended = fake_gpu()
    problem = OptodeProblem(scene(), PENCIL, settings(240, batches=4))

    def tallies(*, fails):
        kept, calls = {}, []

        def keep(batch, tally):
            calls.append(batch)
            if fails and len(calls) == 2:
                pretended.fail_allocations(1)
            copy = pretended.module.zeros(tally.shape, np.uint64)
            copy[...] = tally
            kept[batch] = copy.get()

        (run,) = Runs(problem, Device("cuda", (0,)), keep=keep).each
        list(advance_in_chunks([run], 240, first_chunk=100))
        assert len(calls) == 4 + fails
        return kept

    found, expected = tallies(fails=True), tallies(fails=False)
    assert sorted(found) == [0, 1, 2, 3]
    for batch, tally in expected.items():
        assert tally.any()
        np.testing.assert_array_equal(found[batch], tally)


@pytest.mark.parametrize("device", [CPU, Device("cuda", (0,))])
@pytest.mark.parametrize("photons", [37, 120, 150, 239])
def test_an_optode_goes_on_in_the_middle_of_a_group(one_gpu, device, photons):
    problem = OptodeProblem(scene(), PENCIL, settings(240, batches=4))

    def tallies(*, begun):
        kept = {}

        def keep(batch, tally):
            kept[batch] = np.array(tally.get() if hasattr(tally, "get") else tally)

        (run,) = Runs(problem, device, keep=keep).each
        for piece in joined([problem.batch_range(batch) for batch in range(4)], run.span):
            ends = [*range(piece[0], piece[1], 40), piece[1]]
            for start, stop in pairwise(sorted({*ends, photons} if piece[0] <= photons <= piece[1] else ends)):
                run.advance(start, stop - start)
                if begun and stop == photons:
                    path = run.open_path()
                    (run,) = Runs(problem, device, keep=keep).each
                    run.go_on(photons, path)
        return kept, path if begun else None

    (found, path), (expected, _) = tallies(begun=True), tallies(begun=False)
    assert (path is None) == (photons % 60 == 0)
    for batch in range(4):
        assert expected[batch].any()
        np.testing.assert_array_equal(found[batch], expected[batch])


def test_tallies_that_32_bits_cannot_count_are_refused(fake_gpu, monkeypatch):
    fake_gpu()
    problem = OptodeProblem(scene(), PENCIL, settings(240, batches=4))
    make = functools.partial(Runs, problem, Device("cuda", (0,)), keep=print)
    make()
    monkeypatch.setattr(gpu, "_MAX_PLACES", 3 * problem.tally_size)
    with pytest.raises(InvalidInput, match="more than a GPU run can count"):
        make()
