"""CUDA and its CPU backend, bit for bit: with g++ in place of a GPU, and on a real one."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.dose import BySpacing, Dose, DvhSettings, LabelStructures, LiveDvh, ResidentDvh, dvh, dvh_steps
from napari_gpubio.dose.kernels.histogram import cpu, gpu, sampling, slices, work
from napari_gpubio.dose.kernels.histogram.problem import make_problem
from napari_gpubio.dose.samples import treatment_dose, treatment_structures
from napari_gpubio.dose.structures import whole_grid
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.dose.samples import affine_of, check_same, random_case, uniform_dose
from tests.runs import check_closing_frees, check_same_methods

pytestmark = pytest.mark.daily

GPU = Device("cuda", (0,))
SETTINGS = DvhSettings(sampling=BySpacing(spacing_mm=1.7))


def same(expected, found):
    for name in ("counts", "sums", "outside", "low", "high"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def counted_by_both(dose, structures, settings):
    """Both backends, each with a problem of its own, since the CPU paints into the labels of its problem."""
    problem, other = (make_problem(dose, structures, settings, painted=True) for _ in "ab")
    runs = cpu.Run(other), gpu.Run(problem, device=GPU)
    for run in runs:
        run.advance(0, problem.items)
    same(*(run.snapshot() for run in runs))
    return runs, problem


def check_backends(problem):
    runs = cpu.Run(problem), gpu.Run(problem, device=GPU)
    for run in runs:
        run.advance(0, problem.items)
    expected, found = (run.snapshot() for run in runs)
    same(expected, found)
    assert (expected.counts.sum(axis=1) > 0).all()
    assert expected.outside.any()
    return expected


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        DvhSettings(sampling=BySpacing(spacing_mm=1.7), bins=100),
        DvhSettings(sampling=BySpacing(spacing_mm=1.7), bins=8192),
        DvhSettings(sampling=BySpacing(spacing_mm=1.7), bin_scale="logarithmic"),
        DvhSettings(sampling=BySpacing(spacing_mm=3.0), interpolation="shape"),
    ],
    ids=["linear", "100 bins", "8192 bins", "logarithmic", "shape"],
)
def test_kernels_have_the_bits_of_their_backend(fake_gpu, settings):
    fake_gpu()
    check_backends(make_problem(*random_case(1), settings))


def test_a_degenerate_dose_has_the_bits_too(fake_gpu):
    fake_gpu()
    tally = check_backends(make_problem(*random_case(3, degenerate=True), SETTINGS))
    assert (np.count_nonzero(tally.counts, axis=1) == 1).all()


def test_crossings_are_the_same(fake_gpu):
    fake_gpu()
    problem = make_problem(*random_case(1), SETTINGS)
    rows = next(part for part in problem.works if isinstance(part, work.ContourWork))
    expected = slices.find_segments(rows.slices)
    found = gpu.upload_rows(rows).arrays
    np.testing.assert_array_equal(found["starts"].get(), expected.starts)
    np.testing.assert_array_equal(found["x"].get(), expected.x)
    assert len(expected.x) > 200


@pytest.mark.parametrize("order", [loader.REVERSED, 11])
def test_the_order_of_threads_changes_nothing(fake_gpu, order):
    fake_gpu()
    with loader.thread_order(order):
        check_backends(make_problem(*random_case(4), DvhSettings(sampling=BySpacing(spacing_mm=3.0))))


def test_the_kernels_have_no_undefined_behavior(fake_gpu, monkeypatch, capfd):
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    check_backends(make_problem(*random_case(5), DvhSettings(sampling=BySpacing(spacing_mm=3.0), bins=100)))
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_boxes_are_counted_taken_off_and_painted_alike(fake_gpu, kind):
    fake_gpu()
    runs, problem = counted_by_both(*random_case(6), SETTINGS)
    number, part = next(
        (n, p) for n, p in enumerate(problem.works) if isinstance(p, work.LabelWork) and p.labels.dtype == kind
    )
    new = part.labels.max()
    for box in ((1, 5, 0, 4, 2, 7), (0, 7, 0, 6, 0, 9), (6, 7, 5, 6, 8, 9)):
        for run in runs:
            run.tally_box(number, box, -1)
            run.paint(number, box, np.full([box[n + 1] - box[n] for n in (0, 2, 4)], new, kind))
            run.tally_box(number, box, 1)
            run.renew_extremes(number, box)
        same(*(run.snapshot() for run in runs))


def test_long_rows_and_many_strips_have_the_bits_too(fake_gpu):
    """Rows of labels that are read in several steps, the last one not full; strips that a box does not fill."""
    fake_gpu()
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 12, (2, 11, 301)).astype(np.uint8)
    labels[:, :, 64:200] = 0
    labels[:, :, 130] = 5
    dose = Dose(values=rng.random((3, 12, 150)).astype(np.float32), affine=affine_of((1, 1, 2)), unit="Gy")
    parts = LabelStructures(labels=labels, affine=affine_of(1.0))
    runs, _ = counted_by_both(dose, [parts], DvhSettings(sampling=BySpacing(spacing_mm=1.0), bins=100))
    expected = runs[0].snapshot()
    np.testing.assert_array_equal((expected.counts.sum(axis=1) + expected.outside), np.bincount(labels.ravel())[1:])
    box = (0, 2, 3, 10, 33, 290)
    for run in runs:
        run.tally_box(0, box, -1)
        run.renew_extremes(0, box)  # what was taken off is still there, so only these extremes come back
    same(*(run.snapshot() for run in runs))
    np.testing.assert_array_equal(runs[0].snapshot().low, expected.low)


def test_any_chunks_and_several_gpus_give_the_bits_of_one_cpu(fake_gpu, in_chunks_of):
    fake_gpu(count=3)
    in_chunks_of(2)
    dose, structures = random_case(7)
    results = [dvh(dose, structures, SETTINGS, device=device) for device in ("cpu", "cuda", "cuda:all")]
    for one in results[1:]:
        check_same(one, results[0])
    assert results[2].parameters["device"].startswith("cuda:0 (Fake GPU 0), cuda:1")


def test_closing_frees_all_gpus(fake_gpu, in_chunks_of):
    pretended = fake_gpu(count=3)
    in_chunks_of(1)
    check_closing_frees(pretended, dvh_steps(*random_case(8), SETTINGS, device="cuda:all"))


def test_too_little_gpu_memory_is_an_error_with_numbers(fake_gpu):
    fake_gpu(total_bytes=10_000)
    with pytest.raises(OutOfGpuMemory, match=r"counting this dose needs about \d+ MB"):
        dvh(*random_case(9), SETTINGS, device="cuda")


def test_counts_of_a_task_fit_in_32_bits():
    problem = make_problem(*random_case(1), DvhSettings(sampling=BySpacing(spacing_mm=0.2)))
    rows = next(part for part in problem.works if isinstance(part, work.ContourWork))
    units = slices.units_of(rows.slices)
    most = max(units[first:end].sum() for first, end, _ in rows.tasks)
    assert most <= work.MAX_TASK_UNITS
    assert work.MAX_TASK_UNITS * slices.WEIGHT_UNIT < 2**32
    np.testing.assert_array_equal(rows.tasks[1:, 0], rows.tasks[:-1, 1])
    assert len(rows.tasks) > 3


def test_multiples_wrap_around():
    assert int(sampling.multiple.py_func(10, sampling.SAMPLE_X)) == 10 * 3518319155 % 2**32
    assert float(sampling.fraction.py_func(np.uint32(1 << 31))) == 0.5


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("Volume", gpu.VOLUME),
        ("BinRule", gpu.BIN_RULE),
        ("Sums", gpu.SUMS),
        ("Rows", gpu.ROWS),
        ("Points", gpu.POINTS),
        ("Voxels", gpu.VOXELS),
        ("VoxelBox", gpu.VOXEL_BOX),
        ("PlaneSlice", slices.PLANE_SLICE),
    ],
)
def test_structs_have_the_layout_of_the_kernels(name, layout):
    text = kernels.source(gpu.SOURCE)
    assert struct_in(text, name) == layout


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


GRID = whole_grid((40, 40, 40), affine_of(1.7, (-10, -10, -10)))
REAL_CASES = {
    "uniform": (uniform_dose(), [GRID]),
    "rough": random_case(1),
    "near-degenerate": (treatment_dose(), treatment_structures()),
}


@pytest.mark.gpu
@pytest.mark.parametrize("bins", [100, 4096, 8192])
@pytest.mark.parametrize("bin_scale", ["linear", "logarithmic"])
@pytest.mark.parametrize("name", REAL_CASES)
def test_the_bits_are_the_cpus(name, bin_scale, bins):
    settings = DvhSettings(bins=bins, bin_scale=bin_scale)
    check_same(*(dvh(*REAL_CASES[name], settings, device=device) for device in ("cuda", "cpu")))


@pytest.mark.gpu
def test_shape_interpolation_has_the_bits_too():
    settings = DvhSettings(interpolation="shape")
    check_same(*(dvh(*REAL_CASES["near-degenerate"], settings, device=device) for device in ("cuda", "cpu")))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint16])
def test_new_doses_have_the_bits_too(kind):
    dose, structures = REAL_CASES["near-degenerate"]
    values = (np.random.default_rng(2).random(dose.values.shape) * 60).astype(kind)
    new = dataclasses.replace(dose, values=values)
    with ResidentDvh(dose, structures, device="cuda") as resident:
        resident.set_dose(new)
        check_same(resident.dvhs(), dvh(new, structures, device="cpu"))
        resident.set_dose(dose)
        check_same(resident.dvhs(), dvh(dose, structures, device="cpu"))


@pytest.mark.gpu
def test_painting_has_the_bits_too():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 30, (60, 70, 80)).astype(np.uint8)
    parts = LabelStructures(labels=labels, affine=affine_of(0.5))
    answers = []
    for device in ("cuda", "cpu"):
        with LiveDvh(uniform_dose(), parts, device=device) as live:
            live.paint((10, 20, 30), np.full((9, 8, 7), 5))
            answers.append(live.dvhs())
    check_same(*answers)
