"""Verbs of the command line that are made from operations."""

import dataclasses
import json
import re

import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.core.command_line import Parser
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import (
    OpenVolume,
    Operation,
    Ref,
    Volume,
    given,
    read_record,
    records,
    run,
    verbs,
    write_record,
)
from napari_gpubio.core.operations.command_options import options_of
from napari_gpubio.core.operations.commands import _prepare, add_verb
from napari_gpubio.core.report import add_common
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import read_volume, write_volume
from tests.core.operations.toys import Join, Smooth, Trace, Uphill, Weighted

TOYS = (Smooth, Trace, Join)


@pytest.fixture(autouse=True)
def _only_toys(monkeypatch):
    """A command line of the toys alone."""

    def make_parser(_):
        parser = Parser(prog="napari-gpubio")
        verbs = parser.add_subparsers(required=True)
        for one in TOYS:
            add_verb(verbs, one)
        add_common(verbs.choices)
        return parser

    monkeypatch.setattr(cli, "make_parser", make_parser)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "in.nii.gz"
    write_volume(path, np.arange(60, dtype=np.float32).reshape(3, 4, 5), np.eye(4))
    return path


def call(*arguments):
    return cli.main([*map(str, arguments)])


def test_from_file_to_files(tmp_path, path, capsys):
    out, rest, record = tmp_path / "out.nii", tmp_path / "rest.nii", tmp_path / "r.json"
    given = "--radius", 2, "--wraps", "--out", out, "--rest-out", rest, "--record", record, "--device", "cpu"
    assert call("toy-smooth", path, *given) == 0
    expected = Smooth(image=OpenVolume.at(path), radius=2, wraps=True)
    assert read_record(record) == expected
    np.testing.assert_allclose(read_volume(out)[0], run(expected, device="cpu").smooth.array)
    np.testing.assert_allclose(read_volume(rest)[0], run(expected, device="cpu").rest.array)
    assert capsys.readouterr().out.split() == ["mean", "29.5", str(out), str(rest), str(record)]


def test_records_are_inputs_and_numbers_are_reported(tmp_path, path, capsys):
    smooth, traced, joined = (tmp_path / f"{n}.json" for n in range(3))
    assert call("toy-smooth", path, "--record", smooth, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["mean"] == pytest.approx(29.5)
    assert printed["files"] == [str(smooth)]
    method = "--method", "uphill", "--neighbors", "weighted", "--power", "2", "--step-mm", "0.25", "--limit", "3"
    assert call("toy-trace", smooth, *method, "--start-mm", 1, 2, -3, "--record", traced, "--json") == 0
    expected = Trace(
        field=Smooth(image=OpenVolume.at(path)),
        start_mm=(1, 2, -3),
        method=Uphill(step_mm=0.25, neighbors=Weighted(power=2.0), limit=3.0),
    )
    assert read_record(traced) == expected
    assert "note: a note" in capsys.readouterr().err
    assert call("toy-join", traced, traced, "--last=1", "--record", joined) == 0
    assert read_record(joined) == Join(paths=(expected, expected), last=1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["toy-trace", "IN", "--direction", "1", "0", "0", "--method", "uphill"],
            "--direction is an option of straight",
        ),
        (["toy-trace", "IN", "--power", "1", "--method", "uphill"], "--power is an option of weighted"),
        (["toy-trace", "IN", "--power=1"], "--power is an option of weighted"),
        (["toy-trace", "IN", "--method", "eudx"], "--method is 'eudx'; choose one of straight, uphill"),
        (["toy-trace", "IN", "--count", "0", "--record", "OUT"], "count is 0; it must be at least 1"),
        (["toy-smooth", "IN"], "nothing is to be written; give --out or --rest-out"),
        (["toy-smooth", "IN", "--out", "OUT"], "does not end in .ome.zarr, .nii or .nii.gz"),
        (["toy-smooth", "IN", "--out", "IN", "--force"], "--out and in.nii.gz are the same file"),
        (["toy-smooth", "IN.none", "--out", "OUT.nii"], "IN.none does not exist"),
        (["toy-join", "IN", "--record", "OUT"], r"give the record \(.json\) of an operation that makes path3"),
        (["toy-smooth", "RECORD", "--out", "OUT.nii"], "image takes volume; the result 'path' of toy-trace is path3"),
    ],
)
def test_bad_commands_get_a_sentence(tmp_path, path, capsys, arguments, sentence):
    record = tmp_path / "trace.json"
    write_record(record, Trace(field=OpenVolume.at(path)))
    names = {"IN": path, "OUT": tmp_path / "out", "OUT.nii": tmp_path / "out.nii", "RECORD": record}
    names["IN.none"] = tmp_path / "IN.none"
    assert call(*(names.get(one, one) for one in arguments)) == 2
    assert re.search(sentence, capsys.readouterr().err)


def test_numbers_are_reported_without_a_file(path, capsys):
    assert call("toy-smooth", path, "--json", "--device", "cpu") == 0
    assert json.loads(capsys.readouterr().out)["mean"] == pytest.approx(29.5)


def test_files_are_written_while_results_are_made(tmp_path, path, monkeypatch, capsys):
    def steps_into(self, data, files, **run):
        made = yield from self.steps(data, **run)
        files["smooth"].write_text("as it is made")
        return made

    monkeypatch.setattr(Smooth, "steps_into", steps_into)
    out = tmp_path / "out.nii"
    assert call("toy-smooth", path, "--out", out, "--device", "cpu") == 0
    assert out.read_text() == "as it is made"
    assert str(out) in capsys.readouterr().out


def test_a_result_that_the_settings_leave_out_is_refused_before_the_run(tmp_path, path, monkeypatch, capsys):
    monkeypatch.setattr(Smooth, "has", lambda self, name: name == "smooth")
    monkeypatch.setattr(Smooth, "steps", None)
    assert call("toy-smooth", path, "--rest-out", tmp_path / "rest.nii", "--device", "cpu") == 2
    assert "--rest-out is rest.nii, and there is no rest with these settings" in capsys.readouterr().err


def test_abbreviations_are_no_options(path, capsys):
    with pytest.raises(SystemExit):
        call("toy-smooth", path, "--rad", 2, "--record", "x.json")
    assert "--rad" in capsys.readouterr().err


def _help(capsys, *arguments):
    with pytest.raises(SystemExit):
        call(*arguments)
    return capsys.readouterr().out


def test_help_shows_what_is_chosen_and_help_all_the_rest(capsys):
    plain, other, every = (
        _help(capsys, "toy-trace", *more)
        for more in (["--help"], ["--method", "uphill", "--help"], ["--method", "uphill", "--help-all"])
    )
    assert "--direction" in plain
    assert "--neighbors" not in plain
    assert "--neighbors" in other
    assert "--limit" not in other
    assert "--limit" in every
    assert "--step-mm MM Length of a step. (default: 0.5)" in " ".join(every.split())


def test_no_verb_has_an_option_twice_and_every_field_is_one():
    for cls in verbs().values():
        options = {one.path: one.flag for one in options_of(cls)}
        flags = {}
        for path, flag in options.items():
            flags.setdefault(flag, set()).add((path[:-1], path[-1]))
        assert all(len({name for _, name in places}) == 1 for places in flags.values()), cls
        assert all(len({before for before, _ in places}) == 1 for places in flags.values()), cls


@dataclasses.dataclass(frozen=True)
class Silent(Operation, verb="", makes={"volume": Volume}):
    """An operation with a field of which nobody knows what it is."""

    number: int = 3


def test_a_field_that_says_nothing_is_found_at_once():
    with pytest.raises(TypeError, match="number has neither param nor part"):
        _prepare(Silent, Parser(), [])


def test_what_can_be_written_is_whatever_else_is_refused(tmp_path, path, capsys, monkeypatch):
    """Numbers that cannot be printed, and one of two files."""

    def refused(*_):
        raise InvalidInput("there is no mean of it; write it instead")

    monkeypatch.setattr(Smooth, "summary", refused)
    out, rest = tmp_path / "out.nii", tmp_path / "rest.nii"
    assert call("toy-smooth", path, "--out", out, "--rest-out", rest, "--device", "cpu") == 2
    assert out.is_file()
    assert rest.is_file()
    assert "there is no mean of it" in capsys.readouterr().err
    write = Smooth.result
    monkeypatch.setattr(
        Smooth, "result", lambda self, made, name: refused() if name == "smooth" else write(self, made, name)
    )
    assert (
        call("toy-smooth", path, "--out", tmp_path / "o.nii", "--rest-out", tmp_path / "r.nii", "--device", "cpu") == 2
    )
    assert (tmp_path / "r.nii").is_file()
    assert not (tmp_path / "o.nii").exists()


def test_a_field_may_be_called_as_the_command_line_calls_its_own(tmp_path, path, monkeypatch):
    monkeypatch.setattr(records, "_verbs", dict(records._verbs))

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Named(Operation, verb="toy-named", makes={"volume": Volume}):
        """Take it."""

        run: Ref[Volume] = given("Run", "What is taken.")

        def steps(self, data, **_):
            yield Step(0, 1, "taking")
            return data.run

    monkeypatch.setattr(f"{__name__}.TOYS", (Named,))
    assert call("toy-named", path, "--out", tmp_path / "o.nii", "--device", "cpu") == 0
    np.testing.assert_array_equal(read_volume(tmp_path / "o.nii")[0], read_volume(path)[0])
