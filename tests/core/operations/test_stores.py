"""What runs, once; what is kept; and checksums."""

import dataclasses
import errno
import threading

import numpy as np
import pytest

from napari_gpubio.core import files
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import (
    STORE,
    Held,
    HeldVolume,
    OpenVolume,
    Output,
    Store,
    Volume,
    array_checksum,
    digest,
    file,
    file_checksum,
    from_graph,
    graph,
    kinds,
    records,
    run,
    run_steps,
    save,
)
from napari_gpubio.core.operations.records import Reading
from napari_gpubio.core.operations.runs import write_steps
from napari_gpubio.core.operations.volumes import open_volume, record_beside
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import write_volume
from tests.core.operations.toys import Join, Path3, Smooth, Trace, Uphill


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def image(store):
    return HeldVolume.of(Volume(array=np.arange(60.0).reshape(3, 4, 5), affine=np.eye(4)), store)


def test_what_is_needed_runs_once(store, image):
    smooth = Smooth(image=image)
    joined = Join(paths=(Trace(field=smooth), Trace(field=smooth.output("rest"), count=3)))
    result = run(joined, store=store, device="cpu")
    assert result.points.shape == (10, 3)
    assert store.runs == 5
    run(Trace(field=smooth, count=7), store=store, device="cpu")
    assert store.runs == 6
    run(joined, store=store, device="cpu")
    assert store.runs == 6


def test_one_result_of_several(store, image):
    smooth = Smooth(image=image)
    both = run(smooth, store=store, device="cpu")
    rest = run(smooth.output("rest"), store=store, device="cpu")
    assert rest is both.rest
    np.testing.assert_allclose(both.smooth.array + rest.array, np.arange(60.0).reshape(3, 4, 5))


def test_a_result_that_was_let_go_is_made_again_with_the_same_bits(image, store):
    first = digest(run(Trace(field=Smooth(image=image), method=Uphill()), store=store, device="cpu"))
    store.clear()
    assert digest(run(Trace(field=Smooth(image=image), method=Uphill()), store=store, device="cpu")) == first


def test_the_budget_holds(image):
    store = Store(budget=2 * 60 * 8 + 100)
    store.hold(np.arange(60.0).reshape(3, 4, 5))
    for radius in range(4):
        run(Smooth(image=image, radius=radius), store=store, device="cpu")
    assert store.result(Smooth(image=image, radius=3), "cpu") is not None
    assert store.result(Smooth(image=image, radius=0), "cpu") is None
    run(Trace(field=Smooth(image=image, radius=0)), store=store, device="cpu")  # made again as it is needed


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_beyond_the_budget_wait_in_files(order):
    store = Store(budget=1000)
    arrays = [np.asarray(np.arange(60.0).reshape(3, 4, 5) + n, order=order) for n in range(4)]
    held = [store.hold(array) for array in [np.zeros((0, 3)), *arrays]][1:]
    kept = [store.array(one) for one in held]
    assert [isinstance(one, np.memmap) for one in kept] == [True, True, False, False]  # 480 bytes each
    for array, one, checksum in zip(arrays, kept, held, strict=True):
        np.testing.assert_array_equal(one, array)
        assert Held(array_checksum(one)) == checksum
        assert not one.flags.writeable
    assert store.hold(arrays[0]) == held[0]
    image = HeldVolume.of(Volume(array=arrays[0], affine=np.eye(4)), store)
    np.testing.assert_array_equal(run(image, store=store).array, arrays[0])


def test_arrays_stay_in_memory_where_no_file_has_room(monkeypatch):
    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    store = Store(budget=100)
    arrays = [np.arange(60.0) + n for n in range(3)]
    held = [store.hold(array) for array in arrays]
    for one, array in zip(held, arrays, strict=True):
        np.testing.assert_array_equal(store.array(one), array)


def test_a_stopped_result_is_returned_and_nothing_is_built_on_it(store, image):
    stop = threading.Event()
    joined = Join(paths=(Trace(field=image, count=50),))
    steps = run_steps(joined.paths[0], store=store, device="cpu", stop=stop)
    for _ in range(5):
        next(steps)
    stop.set()
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert not end.value.value.complete
    assert store.result(joined.paths[0].of, "cpu") is None
    steps = run_steps(joined, store=store, device="cpu", stop=stop)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value is None


def test_several_threads_make_a_result_once(store, image):
    traced, found = Trace(field=Smooth(image=image), count=500, method=Uphill()), []
    threads = [
        threading.Thread(target=lambda: found.append(digest(run(traced, store=store, device="cpu")))) for _ in range(6)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert len(found) == 6
    assert len({*found}) == 1
    assert store.runs == 3


def test_a_generator_that_is_closed_lets_others_in(store, image):
    steps = run_steps(Trace(field=image), store=store, device="cpu")
    next(steps)
    next(steps)
    steps.close()
    assert len(run(Trace(field=image), store=store, device="cpu").points) == 6


def test_held_arrays_are_copies_that_cannot_be_changed(store):
    array = np.zeros((3, 3))
    held = store.hold(array)
    array[:] = 1
    assert store.array(held).sum() == 0
    with pytest.raises(ValueError, match="read-only"):
        store.array(held)[0] = 1
    with pytest.raises(InvalidInput, match="is not here"):
        Store().array(held)


def test_checksums_of_arrays():
    array = np.arange(6).reshape(2, 3)
    different = [array, array.astype(np.int32), array.T, array.reshape(3, 2), np.asfortranarray(array), array + 1]
    assert len({array_checksum(one) for one in different}) == 6
    assert array_checksum(array[:, ::-1][:, ::-1]) == array_checksum(array)
    assert array_checksum(np.zeros((0, 3))) != array_checksum(np.zeros((3, 0)))


@pytest.mark.parametrize(
    "part", [np.s_[1:3, 2:4], np.s_[:, 1:], np.s_[1:2], np.s_[..., None], np.s_[::-1], np.s_[:, :, 0]]
)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_a_part_of_an_array_is_held_as_what_its_checksum_is_of(part, order, axes, tmp_path):
    array = np.arange(3 * 4 * 5, dtype=np.int16).reshape((3, 4, 5)).copy(order).transpose(axes)[part]
    store = Store()
    held = store.hold(array)
    np.testing.assert_array_equal(store.array(held), array)
    np.save(tmp_path / "a.npy", store.array(held))
    for same in (array, store.array(held), np.load(tmp_path / "a.npy")):
        assert array_checksum(same) == held.checksum
    for line in (np.arange(9)[::-1], np.arange(9)[::2], np.arange(12).reshape(3, 1, 4)[::-1]):
        assert array_checksum(line) == array_checksum(line.copy()) == store.hold(line).checksum


def test_checksums_of_files(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc")
    assert file_checksum(path) == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    known = file(path)
    path.write_bytes(b"abcd")
    with pytest.raises(InvalidInput, match=r"a.bin has changed: its checksum was sha256:ba7816bf and is"):
        file(path, known.checksum)
    monkeypatch.setattr(files, "WHOLE_BYTES", 1 << 20)
    path.write_bytes(bytes(3 << 20))
    sampled = file_checksum(path)
    assert sampled.startswith("sampled:")
    whole = file_checksum(path, whole=True)
    assert whole.startswith("sha256:")
    assert file(path, whole).checksum == whole
    assert file(path, sampled).checksum == sampled
    with path.open("r+b") as stream:
        stream.seek(2 << 20)
        stream.write(bytes(range(256)) * 300)
    assert file_checksum(path) != sampled
    with pytest.raises(InvalidInput, match="does not exist"):
        file(tmp_path / "none")


def test_an_operation_whose_file_has_changed_is_refused(tmp_path, store):
    path = tmp_path / "a.nii.gz"
    write_volume(path, np.ones((3, 4, 5), np.float32), np.eye(4))
    opened = OpenVolume.at(path)
    assert run(opened, store=store, device="cpu").array.sum() == 60
    write_volume(path, np.zeros((3, 4, 5), np.float32), np.eye(4))
    with pytest.raises(InvalidInput, match=r"a.nii.gz has changed"):
        run(opened, store=Store(), device="cpu")
    assert OpenVolume.at(path) != opened


def test_a_volume_and_its_record_come_back_from_a_file(tmp_path, store):
    path, out = tmp_path / "a.nii.gz", tmp_path / "b.nii.gz"
    affine = np.diag([1.0, 2.0, 3.0, 1.0])
    write_volume(path, np.ones((3, 4, 5), np.float32), affine)
    smooth = Smooth(image=OpenVolume.at(path))
    save(smooth, out, store=store, device="cpu")
    record = record_beside(out)
    assert [*record["operations"]][-1] == smooth.id
    assert record["output"] == "smooth"
    again = OpenVolume.at(out)
    assert [one.path for one in again.beside] == [str(tmp_path / "b.json")]
    volume = run(again, store=store, device="cpu")
    np.testing.assert_array_equal(volume.affine, affine)
    np.testing.assert_allclose(volume.array, 1)
    write_volume(out, np.zeros((3, 4, 5), np.float32), affine)  # by another program
    assert record_beside(out) is None


def test_what_a_held_volume_means_is_part_of_it(store):
    array, affine = np.zeros((2, 2, 2)), np.eye(4)
    plain = HeldVolume.of(Volume(array=array, affine=affine), store)
    dose = HeldVolume.of(Volume(array=array, affine=affine, quantity=Quantity("absorbed dose", "Gy")), store)
    assert plain != dose
    assert run(dose, store=store, device="cpu").quantity == Quantity("absorbed dose", "Gy")
    with pytest.raises(InvalidInput, match="not a known unit"):
        dataclasses.replace(dose, quantity=("dose", "furlong", "linear"))
    with pytest.raises(InvalidInput, match="affine"):
        dataclasses.replace(dose, affine=np.zeros((4, 4)))


def test_halves_and_guide_are_held_too(store):
    array = np.arange(8.0).reshape(2, 2, 2)
    volume = Volume(array=array, affine=np.eye(4), halves=np.stack([array, array + 1]), guide=array + 2)
    held = HeldVolume.of(volume, store)
    assert [*from_graph(graph(held)).values()] == [held]
    assert digest(run(held, store=store, device="cpu")) == digest(volume)
    assert HeldVolume.of(volume.like(array), store) != held


def test_what_has_no_file_is_refused_in_a_sentence(tmp_path, store, image):
    with pytest.raises(InvalidInput, match="path3 is written to no file"):
        save(Trace(field=image), tmp_path / "a.nii", store=store, device="cpu")
    with pytest.raises(InvalidInput, match=r"a.png does not end in .nii"):
        save(Smooth(image=image), tmp_path / "a.png", store=store, device="cpu")


def test_an_image_of_odd_shape(tmp_path):
    write_volume(tmp_path / "a.nii", np.ones((3, 4, 5, 2), np.float32), np.eye(4))
    assert open_volume(tmp_path / "a.nii").array.shape == (3, 4, 5, 2)
    assert STORE.budget > 0
    assert Output(OpenVolume.at(tmp_path / "a.nii"), "volume").kind is Volume


# -- results that are written while they are made, and what is too large for the memory -------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written(Smooth, verb="", makes=Smooth.makes):
    """An average that goes to files as it is made."""

    def steps_into(self, data, files, **run):
        made = yield from self.steps(data, **run)
        for name, path in files.items():
            np.save(path, getattr(made, name).array)
        return made


def test_results_are_written_while_they_are_made(store, image, tmp_path):
    verb = Written(image=image)
    assert (Written.writes_files(), Smooth.writes_files()) == (True, False)
    drive(write_steps(verb, {"rest": tmp_path / "rest.npy"}, device="cpu", store=store))
    assert [one.name for one in tmp_path.iterdir()] == ["rest.npy"]
    assert store.result(verb, "cpu") is None, "it was not kept"
    np.testing.assert_array_equal(np.load(tmp_path / "rest.npy"), run(verb, store=store, device="cpu").rest.array)
    with pytest.raises(NotImplementedError):
        drive(write_steps(Smooth(image=image), {}, device="cpu", store=store))


def test_a_mapped_array_beyond_the_budget_is_not_copied(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(99.0))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    small, large = Store(budget=mapped.nbytes - 1), Store(budget=mapped.nbytes)
    assert small.hold(mapped) == large.hold(mapped)
    for store, is_shared in ((small, True), (large, False)):
        store.hold(np.zeros(9))
        assert np.shares_memory(store.array(store.hold(mapped)), mapped) == is_shared


def test_iterators_count_like_what_they_give_and_mapped_arrays_take_no_room(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(99.0))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert [*kinds._leaves(iter([1, (2, 3)]))] == [1, 2, 2, 3]
    for one, size in ((mapped, 0), (np.asarray(mapped), 0), (mapped[3:], 0), (np.array(mapped), 99 * 8)):
        assert sum(kinds.sizes_of([one]).values()) == size


def test_the_checksum_of_a_folder_is_that_of_its_files(tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    (folder / "a.tif").write_text("a")
    first = file(folder)
    assert file(folder, first.checksum) == first
    (folder / ".hidden").write_text("b")
    assert file_checksum(folder) == first.checksum
    (folder / "a.tif").rename(folder / "b.tif")
    with pytest.raises(InvalidInput, match="frames has changed"):
        file(folder, first.checksum)


def test_what_a_stopped_run_left_in_a_file_may_be_used(monkeypatch):
    """But nothing is made of what is stopped on the way there."""
    monkeypatch.setattr(records, "_verbs", dict(records._verbs))

    @dataclasses.dataclass(frozen=True)
    class OpenPart(Reading, verb="toy-open-part", makes={"volume": Path3}):
        """Open the points that there are."""

        def read(self, data):
            return Path3(np.ones((2, 3)), complete=False)

    made = run(Join(paths=(OpenPart(), OpenPart())), device="cpu", store=Store())
    assert made is not None


def test_a_result_that_settings_leave_out_is_refused_with_its_name(monkeypatch):
    monkeypatch.setattr(Smooth, "has", lambda self, name: name != "rest")
    image = HeldVolume.of(Volume(array=np.ones((3, 3, 3), np.float32), affine=np.eye(4)))
    with pytest.raises(InvalidInput, match="no rest with these settings"):
        run(Smooth(image=image).output("rest"), device="cpu")


def test_an_array_that_two_results_share_counts_once():
    store, shared = Store(budget=1500), np.ones(100)
    for number in range(3):
        store.keep(
            HeldVolume.of(Volume(array=np.full((2, 2, 2), number), affine=np.eye(4)), store), "cpu", [shared[:9]]
        )
    assert len(store._results) == 3
    store.keep(HeldVolume.of(Volume(array=np.ones((3, 2, 2)), affine=np.eye(4)), store), "cpu", [np.ones(100)])
    assert len(store._results) == 1
