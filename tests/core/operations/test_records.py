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
)
from napari_gpubio.core.operations.differences import difference_in_words
from napari_gpubio.core.operations.graphs import changed_fields
from napari_gpubio.core.operations.records import File, Held, Operation, given, input_infos, verbs
from napari_gpubio.core.parameters import param, param_info
from napari_gpubio.core.settings import Settings, part, part_info
from napari_gpubio.light.operations import HeldDomain, Simulate
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Pencil
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
    joined = Join(paths=(trace, trace)), Join(paths=(trace, other))
    assert [path for path, _, _ in difference(*joined)][:1] == ["paths[1].field.radius"]


def named_image(values, name="head"):
    return HeldVolume.of(Volume(array=np.full((2, 2, 2), values), affine=np.eye(4), name=name), Store())


def tissue(*media, at=(0, 0, 0)):
    labels = Held(CHECKSUM)
    return Simulate(tissue=HeldDomain(labels=labels, affine=np.eye(4), media=media), sources=(Pencil(position_mm=at),))


HEAD, SKULL, VEIN = named_image(1.0), Medium(label=1, name="skull", mua_per_mm=0.02), Medium(label=2, g=0.9)
SMOOTH, TRACE = Smooth(image=HEAD), Trace(field=HEAD)
OTHER_SKULL = dataclasses.replace(SKULL, mua_per_mm=0.015)


@pytest.mark.parametrize(
    ("made", "now", "words"),
    [
        (SMOOTH, Smooth(image=HEAD), []),
        (SMOOTH, Smooth(image=HEAD, radius=2, wraps=True), ["Radius 1 instead of 2 voxels", "Wraps off instead of on"]),
        (SMOOTH, Smooth(image=named_image(2.0)), ["Voxels of image: other values"]),
        (SMOOTH, Smooth(image=named_image(2.0, "T1")), ["Image 'head' instead of 'T1'"]),
        (SMOOTH, Smooth(image=HEAD, mask=HEAD), ["Mask none instead of 'head'"]),
        (TRACE, Trace(field=HEAD, start_mm=(1, 2.5, 0)), ["Start (0, 0, 0) instead of (1, 2.5, 0) mm"]),
        (TRACE, Trace(field=HEAD, method=Straight(step_mm=0.500001)), ["Step 0.5 instead of 0.500001 mm"]),
        (TRACE, Trace(field=HEAD, method=Uphill()), ["Method straight instead of uphill"]),
        (
            Trace(field=HEAD, method=Uphill()),
            Trace(field=HEAD, method=Uphill(limit=2.0)),
            ["Limit auto instead of 2"],
        ),
        (TRACE, Trace(field=SMOOTH), ["Field head instead of toy-smooth"]),
        (SMOOTH, TRACE, ["toy-smooth instead of toy-trace"]),
        (Join(paths=(TRACE, Trace(field=HEAD, seed=2))), Join(paths=(TRACE,)), ["Paths: with head"]),
        (
            Join(paths=(TRACE, TRACE)),
            Join(paths=(TRACE, Trace(field=HEAD, count=6))),
            ["Steps of head (2) 5 instead of 6"],
        ),
        (tissue(SKULL, VEIN), tissue(OTHER_SKULL, VEIN), ["µa of skull 0.02 instead of 0.015 /mm"]),
        (tissue(SKULL), tissue(SKULL, at=(0, 0, 5)), ["Position of pencil (0, 0, 0) instead of (0, 0, 5) mm"]),
        (tissue(SKULL, VEIN), tissue(SKULL), ["Optical properties of tissue: with label 2"]),
    ],
)
def test_differences_are_told_in_the_words_of_forms(made, now, words):
    assert difference_in_words(made, now) == words


def test_all_that_can_differ_has_a_label():
    verbs()
    waiting, without = [Settings], set()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("napari_gpubio.") and dataclasses.is_dataclass(cls):
            known = input_infos(cls) if issubclass(cls, Operation) else {}
            fields = [field for field in dataclasses.fields(cls) if field.compare and field.name not in known]
            without |= {(cls.__name__, f.name) for f in fields if param_info(f) is None and part_info(f) is None}
    assert without <= {(name, "pattern") for name in ("EmittingVolume", "Pattern", "Patterned")}  # held by records


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
