"""Records: what makes two of them equal, what they take, and where they differ."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import (
    HeldVolume,
    Output,
    Store,
    Volume,
    ancestry,
    difference,
    stale,
)
from napari_gpubio.core.operations.graphs import changed_fields
from napari_gpubio.core.operations.records import File, Held, Operation, given
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from tests.core.operations.toys import Join, Plain, Smooth, Straight, Trace, Uphill, Weighted

CHECKSUM = "sha256:" + 64 * "0"


@pytest.fixture
def image():
    return HeldVolume.of(Volume(array=np.arange(8.0).reshape(2, 2, 2), affine=np.eye(4)), Store())


@pytest.fixture
def trace(image):
    return Trace(field=Smooth(image=image), method=Uphill(step_mm=0.25))


def test_equal_records_are_one(image, trace):
    again = Trace(field=Smooth(image=image).output("smooth"), method=Uphill(step_mm=np.float32(0.25)))
    assert again == trace
    assert {again: 1}[trace] == 1
    assert again.id == trace.id
    assert trace != Smooth(image=image)
    assert trace != "trace"


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 6},
        {"seed": 2**60},
        {"start_mm": (0.0, 0.0, 1e-300)},
        {"method": Uphill(step_mm=np.nextafter(0.25, 1))},
        {"method": Uphill(step_mm=0.25, neighbors=Weighted())},
        {"method": Straight(step_mm=0.25)},
    ],
)
def test_any_setting_makes_another_record(trace, changes):
    other = dataclasses.replace(trace, **changes)
    assert other.id != trace.id
    assert other != trace


def test_inputs_make_another_record_however_far(image, trace):
    other = dataclasses.replace(trace, field=Smooth(image=image, radius=2))
    rest = dataclasses.replace(trace, field=Output(trace.field.of, "rest"))
    assert len({trace.id, other.id, rest.id}) == 3
    assert Join(paths=(trace, other)).id != Join(paths=(other, trace)).id


def test_places_of_files_make_no_other_record():
    @dataclasses.dataclass(frozen=True)
    class Opened(Operation, verb="", makes={"volume": Volume}):
        file: File = part("File", "A file.")

    assert Opened(File("a/b.nii", CHECKSUM)) == Opened(File("c.nii", CHECKSUM))
    assert Opened(File("a", CHECKSUM)) != Opened(File("a", CHECKSUM.replace("0", "1")))


def test_values_become_plain(image):
    made = Trace(field=image, start_mm=np.array([1, 2, -0.0]), count=np.int16(7))
    assert made.start_mm == (1.0, 2.0, 0.0)
    assert str(made.start_mm[2]) == "0.0"  # not -0.0, which is equal and has another text
    assert all(type(one) is float for one in made.start_mm)
    assert type(made.count) is int
    assert Uphill(limit=3).limit == 3.0
    assert type(Uphill(limit=3).limit) is float


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda image: Trace(field=image, count=0), "count is 0; it must be at least 1"),
        (lambda image: Trace(field=image, count="5"), "count is '5'; give an integer"),
        (lambda image: Trace(field=image, count=True), "count is True; give an integer"),
        (lambda image: Trace(field=image, start_mm=(1, 2)), "start_mm has 2 values; give 3"),
        (lambda image: Trace(field=image, start_mm=(1, 2, np.nan)), r"start_mm\[2\] is nan; give a finite number"),
        (lambda image: Trace(field=image, start_mm=(1, 2, 10**400)), r"start_mm\[2\] is 1000+; give a finite number"),
        (lambda image: Trace(field=image, start_mm=5), "start_mm is 5; give a list"),
        (lambda image: Trace(field=image, method="uphill"), "method is 'uphill'; give Straight or Uphill"),
        (lambda image: Trace(field=image, method=Plain()), "method is Plain; give Straight or Uphill"),
        (lambda image: Trace(field=None), "field is None; give an operation that makes field"),
        (lambda image: Trace(field=5), "field is 5; give an operation"),
        (lambda image: Smooth(image=Trace(field=image)), "image takes volume; the result 'path' of toy-trace is path3"),
        (lambda image: Smooth(image=Output(image, "path")), "held-volume has no result 'path'; it has volume"),
        (lambda image: Join(paths=()), "paths is empty; give at least one"),
        (lambda image: Join(paths=5), "paths is 5; give a list of operations"),
        (lambda image: Join(paths=(Trace(field=image),), first=10), "first is 10 and last 9; give them in order"),
        (lambda image: Uphill(step_mm=np.inf), "step_mm is inf; give a finite number"),
        (lambda image: Uphill(limit=-1.0), "limit is -1; it must be at least 0"),
        (lambda image: File("a", ""), "the checksum is '', which is none"),
        (lambda image: File("", CHECKSUM), "the path of a file is ''; give its name"),
        (lambda image: Held("../../etc"), "the checksum is '../../etc', which is none"),
    ],
)
def test_bad_values_get_a_sentence(image, make, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make(image)


def test_a_setting_of_another_alternative_cannot_be_written():
    with pytest.raises(TypeError, match="direction"):
        Uphill(direction=(1, 0, 0))


def test_differences_are_named_by_their_paths(image, trace):
    other = dataclasses.replace(
        trace, field=Smooth(image=image, radius=2), count=6, method=Uphill(step_mm=0.5, neighbors=Weighted(power=2.0))
    )
    found = {path: (old, new) for path, old, new in difference(trace, other)}
    assert found == {
        "field.radius": (1, 2),
        "count": (5, 6),
        "method.step_mm": (0.25, 0.5),
        "method.neighbors": (Plain(), Weighted(power=2.0)),
    }
    assert [*difference(trace, trace)] == []
    assert stale(trace.output(), other)[0] == "field.radius: 1 -> 2"
    joined = Join(paths=(trace, trace)), Join(paths=(trace, other))
    assert [path for path, _, _ in difference(*joined)][:1] == ["paths[1].field.radius"]


def test_what_is_needed_comes_once_and_first(image, trace):
    joined = Join(paths=(trace, trace, Trace(field=image)))
    found = ancestry(joined, trace)
    assert len(found) == len({one.id for one in found}) == 5
    for n, one in enumerate(found):
        assert all(ref.of in found[:n] for _, ref in one.inputs())


def test_long_ancestries_are_no_trouble(image):
    one = other = image
    for n in range(3000):
        one, other = Smooth(image=one), Smooth(image=other, radius=1 + (n == 0))
    assert len(ancestry(one)) == 3001
    assert one == dataclasses.replace(one)
    assert [path.count("image") for path, _, _ in difference(one, other)] == [2999]


def test_optional_inputs_may_be_left_out(image):
    assert Smooth(image=image).mask is None
    assert Smooth(image=image, mask=None) == Smooth(image=image)
    assert [field.name for field in changed_fields(Smooth(image=image))] == ["image"]


def test_verbs_are_unique_and_their_versions_can_be_upgraded():
    with pytest.raises(TypeError, match="both 'toy-trace'"):
        type("Other", (Operation,), {"__module__": "elsewhere"}, verb="toy-trace", makes={"path": int})
    with pytest.raises(TypeError, match="upgrades"):
        type("Other", (Operation,), {}, verb="toy-other", makes={"path": int}, version=2)


def test_an_input_says_what_it_takes():
    @dataclasses.dataclass(frozen=True)
    class Wrong(Operation, verb="", makes={"volume": Volume}):
        image: Volume = given("Image", "An image.")

    with pytest.raises(TypeError, match=r"Wrong.image .* an input is Ref"):
        Wrong(image=None)


def test_numbers_of_settings_are_exact():
    @dataclasses.dataclass(frozen=True)
    class Exact(Settings):
        share: float = param(0.1 + 0.2, "Share", "Of it.")

    assert Exact().share == 0.30000000000000004
