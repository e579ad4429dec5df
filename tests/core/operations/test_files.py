"""Operations as JSON: nothing is lost, and what cannot be used gets a sentence with its path."""

import contextlib
import copy
import json
import random

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import (
    HeldVolume,
    OpenVolume,
    Store,
    from_graph,
    graph,
    read_record,
    run,
    schema,
    verbs,
    write_record,
)
from napari_gpubio.core.operations.files import to_data
from napari_gpubio.core.volumes import write_volume
from tests.core.operations.randoms import Records
from tests.core.operations.toys import Join, Smooth, Trace, Uphill

TOYS = (Smooth, Trace, Join)


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("abc")
    return Records(1, Store(), [path])


def _only(data):
    return [*from_graph(data).values()][-1]


def test_records_come_back(records):
    for n in range(60):
        made = records.operation(TOYS[n % 3])
        data = json.loads(json.dumps(graph(made), allow_nan=False))
        again = _only(data)
        assert again == made
        assert to_data(again) == to_data(made)


def test_a_file_comes_back_and_an_older_one_stays_if_a_new_one_cannot_be_written(tmp_path, records, monkeypatch):
    path = tmp_path / "record.json"
    first, second = records.operation(Trace), records.operation(Join)
    write_record(path, first)
    assert read_record(path) == first

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(InvalidInput, match="No space left"):
        write_record(path, second)
    monkeypatch.undo()
    assert read_record(path) == first


def test_a_record_and_what_lies_below_its_folder_move_together(tmp_path):
    study, elsewhere = tmp_path / "study", tmp_path / "elsewhere.nii"
    (study / "scans").mkdir(parents=True)
    for n, path in enumerate((study / "scans" / "a.nii", elsewhere)):
        write_volume(path, np.full((2, 2, 2), n, np.uint8), np.eye(4))
        write_record(study / f"{n}.json", OpenVolume.at(path))
    study.rename(tmp_path / "moved")
    assert "study" not in (tmp_path / "moved" / "0.json").read_text()
    for n in range(2):
        found = read_record(tmp_path / "moved" / f"{n}.json")
        assert np.all(run(found, store=Store()).array == n)


def test_every_field_is_in_a_file_and_large_integers_are_texts(records):
    made = records.operation(Trace)
    row = graph(Trace(field=made.field, seed=2**60))["operations"].popitem()[1]
    assert row["seed"] == str(2**60)
    assert row["method"] == {"kind": "straight", "step_mm": 0.5, "direction": [0.0, 0.0, 1.0]}
    assert row["count"] == 5


def test_older_versions_are_upgraded(records):
    data = graph(Smooth(image=records.operation(Trace).field, radius=3))
    row = next(row for row in data["operations"].values() if row["verb"] == "toy-smooth" and row["radius"] == 3)
    row["width"] = row.pop("radius")
    row["version"] = 1
    assert _only(data).radius == 3


def _change(path, value):
    def change(data, row):
        *ways, last = path
        for key in ways:
            row = row[key]
        if value is KeyError:
            del row[last]
        else:
            row[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_change(["verb"], "cook"), "the verb 'cook' is not known"),
        (_change(["verb"], ["a"]), "the verb .* is not known"),
        (_change(["version"], 7), "toy-trace has version 7 and this program knows 1; update"),
        (_change(["version"], True), "toy-trace.version is True"),
        (_change(["count"], "5"), "toy-trace: count is '5'; give an integer"),
        (_change(["count"], 5.5), "toy-trace: count is 5.5; give an integer"),
        (_change(["count"], 10**30), "toy-trace: count is .*; it must be at most 1000"),
        (_change(["count"], KeyError), "toy-trace lacks 'count'"),
        (_change(["radius"], 5), "toy-trace has no setting 'radius'; it has field"),
        (_change(["start_mm"], [1, 2]), "toy-trace.start_mm has 2 values; give 3"),
        (_change(["start_mm"], [1, 2, float("nan")]), r"start_mm\[2\] is nan"),
        (_change(["start_mm"], {"kind": "x"}), "toy-trace.start_mm is of the kind 'x'"),
        (_change(["method", "kind"], "eudx"), "toy-trace.method is of the kind 'eudx'; choose one of straight, uphill"),
        (_change(["method", "kind"], "straight"), r"toy-trace.method \(straight\) has no setting 'neighbors'"),
        (
            _change(["method", "neighbors", "power"], 9.0),
            r"method \(uphill\).neighbors \(weighted\): power is 9; .* at most 4",
        ),
        (_change(["method", "limit"], "inf"), "limit is 'inf'; give a finite number"),
        (_change(["method", "limit"], [1.0]), "limit is .* must not be a list"),
        (_change(["field"], "x"), "toy-trace.field refers to ''"),
        (_change(["field", "operation"], "x"), "toy-trace.field refers to 'x', which does not stand before it"),
        (_change(["field", "output"], "x"), "toy-smooth has no result 'x'"),
        (_change(["field", "more"], 1), "toy-trace.field is .* and nothing else"),
        (_change(["field"], None), "toy-trace: field is None"),
    ],
)
def test_what_cannot_be_used_gets_a_sentence(records, change, sentence):
    from tests.core.operations.toys import Weighted

    image = records.operation(Trace, depth=1).field
    data = graph(Trace(field=Smooth(image=image), method=Uphill(neighbors=Weighted())))
    change(data, [*data["operations"].values()][-1])
    with pytest.raises(InvalidInput, match=sentence):
        from_graph(data)


def test_a_cycle_cannot_be_written(records):
    data = graph(Smooth(image=Smooth(image=records.operation(Trace, depth=1).field)))
    (_, one), (second, _) = [*data["operations"].items()][-2:]
    one["image"] = {"operation": second, "output": "smooth"}
    with pytest.raises(InvalidInput, match="does not stand before it"):
        from_graph(data)


@pytest.mark.parametrize("data", [None, [], {}, {"format": "x"}, 5, {"format": "napari-gpubio operations"}])
def test_other_files_are_refused(data):
    with pytest.raises(InvalidInput):
        from_graph(data)


def test_newer_records_are_refused(records):
    with pytest.raises(InvalidInput, match="version 2 and this program reads 1; update"):
        from_graph({**graph(records.operation(Trace)), "version": 2})


ODD = (None, True, -1, 0, 1e300, float("nan"), 10**40, "", "x", "\0", [], {}, [[]], {"kind": "uphill"}, "9" * 20)


def _mutant(data, chance):
    """Change, remove, add or move one value somewhere."""
    data = copy.deepcopy(data)
    places = []

    def walk(value):
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(data)
    holder, key = chance.choice(places)
    way = chance.randrange(4)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[chance.choice([*map(str, ODD)])] = holder.pop(key)
    elif way == 2:
        other, where = chance.choice(places)
        holder[key] = (
            copy.deepcopy(other[where]) if where in other or (isinstance(other, list) and where < len(other)) else 1
        )
    else:
        holder[key] = chance.choice(ODD)
    return data


def mutants(records, count, seed):
    """Mutants of random records, as JSON brings them."""
    chance = random.Random(seed)
    for _ in range(count // 20):
        data = graph(records.operation(chance.choice(TOYS)))
        for _ in range(20):
            yield _mutant(data, chance)


def test_mutants_are_taken_or_refused_in_a_sentence(records):
    outcomes = {True: 0, False: 0}
    for data in mutants(records, 1000, 3):
        try:
            from_graph(data)
            outcomes[True] += 1
        except InvalidInput:
            outcomes[False] += 1
    assert min(outcomes.values()) > 20, outcomes


UNSAID = (
    "does not stand before it",
    "has no result",
    "affine",
    "give them in order",
    ".0; give an integer",
    "version is 1.0",
    "is 1e+20; it must be at most 1.8",  # a whole number to a schema
)


def test_the_schema_agrees_with_the_reader(records):
    """But for what it cannot say: that a reference exists, what fits together, and that 1.0 is no integer."""
    records.among = (*TOYS, HeldVolume, OpenVolume)  # engines refuse more than a schema can say
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(schema())
    for n in range(60):
        assert checker.is_valid(json.loads(json.dumps(graph(records.operation(TOYS[n % 3])))))
    for mutant in mutants(records, 200, 4):
        try:
            data = json.loads(json.dumps(mutant, allow_nan=False))
        except ValueError:
            continue
        sentence = ""
        with contextlib.suppress(InvalidInput):
            try:
                from_graph(data)
            except InvalidInput as error:
                sentence = str(error)
                raise
        if not any(one in sentence for one in UNSAID):
            assert checker.is_valid(data) == (not sentence), (sentence, data)


def test_every_verb_is_in_the_schema():
    each = schema()["properties"]["operations"]["additionalProperties"]["oneOf"]
    assert {one["properties"]["verb"]["const"] for one in each} == {*verbs()}
    assert OpenVolume.verb in verbs()
