"""A refusal names the file once; libraries print nothing; warnings of others stay as they were."""

import dataclasses
import logging
import threading
import warnings

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, read_each
from napari_gpubio.core.reading import ReadingNote, note, noted, reading, reads_file
from napari_gpubio.core.volumes import read_volume, write_volume


@reads_file
def read_other(path, leads_to):
    """A reader of a file that leads to another one, in which something is wrong."""
    with reading(leads_to):
        raise InvalidInput("3 is odd; give 4")


@pytest.mark.parametrize("sentence", ["3 is odd; give 4", "a.nii: 3 is odd; give 4"])
def test_a_refusal_names_its_file_once(sentence):
    named = pytest.raises(InvalidInput, match=r"^a\.nii: 3 is odd; give 4$")
    with named, reading("folder/a.nii"), reading("a.nii"):
        raise InvalidInput(sentence)
    with pytest.raises(InvalidInput, match=r"^b\.bin: 3 is odd") as refused:
        read_other("a.json", leads_to="there/b.bin")
    assert refused.value.file == "b.bin"


def test_other_errors_are_raised_as_they_are():
    with pytest.raises(KeyError, match=r"^'x'$"), reading("a.nii"):
        raise KeyError("x")


def test_a_file_that_may_not_be_read_is_refused_by_name():
    with pytest.raises(InvalidInput, match=r"^a\.nii cannot be read .*permission") as refused, reading("a.nii"):
        raise PermissionError(13, "Permission denied")
    assert refused.value.file == "a.nii"
    with pytest.raises(InvalidInput, match=r"^b\.bin cannot be read"), reading("a.json"):  # which a.json leads to
        raise PermissionError(13, "Permission denied", "there/b.bin")


def test_what_a_library_logs_goes_to_our_log(tmp_path, caplog, capfd):
    write_volume(tmp_path / "a.nii", np.zeros((2, 3, 4), np.float32), np.eye(4))
    data = bytearray((tmp_path / "a.nii").read_bytes())
    data[252:254] = b"\x63\x00"  # the code of the qform, which nibabel sets to 0
    (tmp_path / "a.nii").write_bytes(data)
    with caplog.at_level(logging.INFO, "napari_gpubio"):
        read_volume(tmp_path / "a.nii")
    assert "a.nii: qform_code 99 not valid" in caplog.text
    assert capfd.readouterr().err == ""
    logging.getLogger("nibabel.global").warning("of another program")
    assert "of another program" in caplog.text


def test_warnings_are_as_before_when_readers_overlap():
    """The first one ends before the second does, in another thread."""
    inside, go_on = threading.Event(), threading.Event()
    before = list(warnings.filters)

    def second():
        with reading("b"):
            inside.set()
            go_on.wait(10)
            warnings.warn("of a library", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        thread = threading.Thread(target=second)
        with reading("a"):
            thread.start()
            assert inside.wait(10)
            warnings.warn("of a library", UserWarning, stacklevel=1)
        go_on.set()
        thread.join()
        warnings.warn("afterwards", UserWarning, stacklevel=1)
    assert [str(one.message) for one in warned] == ["afterwards"]
    assert list(warnings.filters) == before


def test_numbers_that_overflow_are_not_warned_about():
    with warnings.catch_warnings(), reading("a"):
        warnings.simplefilter("error")
        assert np.isinf(np.float32(1e38) * np.array([1e10], np.float32)).all()


# -- notes ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Found:
    """What a reader returns that has place for notes."""

    notes: tuple[str, ...] = ()


@reads_file
def read_part(_path):
    """A reader without place for notes."""
    note("its unit is assumed")
    note("its unit is assumed")
    return 1


@reads_file
def read_found(path):
    """A reader that leads to another file, and notes things in both ways."""
    read_part(path.with_name("b.txt"))
    note("a.txt has a line too many")
    return Found(("a value was changed",))


ALL = ("a value was changed", "b.txt: its unit is assumed", "a.txt has a line too many")


def test_notes_go_into_the_result_and_name_their_file(tmp_path, caplog):
    assert read_found(tmp_path / "a.txt").notes == ALL
    assert not caplog.records


def test_notes_of_a_result_without_place_are_logged_unless_somebody_listens(tmp_path, caplog):
    assert read_part(tmp_path / "b.txt") == 1
    assert caplog.messages == ["b.txt: its unit is assumed"]
    heard = []
    with noted(heard.append) as outer, noted() as inner:
        assert read_found(tmp_path / "a.txt").notes == ALL
    assert heard == outer == inner == [*ALL[1:], "a.txt: a value was changed"]
    assert len(caplog.messages) == 1


def test_notes_of_layers_are_shown_once_and_go_with_them(tmp_path):
    def read(path):
        note("it is assumed")
        return [(np.zeros(3), {"metadata": {KEY: {"notes": ["it is odd"]}}}, "image"), (np.zeros(3), {}, "image")]

    with pytest.warns(ReadingNote, match=r"^2 files: it is assumed$") as shown:
        layers = read_each(["a.x", "b.x"], read)
    assert len(shown) == 1
    notes = [keywords["metadata"][KEY]["notes"] for _, keywords, _ in layers]
    assert notes[:2] == [["it is odd", "a.x: it is assumed"], ["a.x: it is assumed"]]
    assert notes[3] == ["b.x: it is assumed"]


def test_notes_stay_in_their_thread(tmp_path, caplog):
    with noted() as found:
        thread = threading.Thread(target=read_part, args=(tmp_path / "b.txt",))
        thread.start()
        thread.join()
    assert found == []
    assert caplog.messages == ["b.txt: its unit is assumed"]
