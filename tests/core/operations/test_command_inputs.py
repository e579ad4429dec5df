"""Verbs of the command line: files of another kind, patterns, words of their own, and runs that go on."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.core.command_line import Parser
from napari_gpubio.core.operations import (
    Conversion,
    File,
    OpenVolume,
    Operation,
    Ref,
    Settings,
    Volume,
    file,
    given,
    part,
    read_record,
    register_conversion,
    register_kind,
)
from napari_gpubio.core.operations.commands import add_verb
from napari_gpubio.core.operations.records import Reading, Words
from napari_gpubio.core.parameters import param
from napari_gpubio.core.report import Exit, add_common
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import write_volume


@dataclass(frozen=True)
class Total:
    """A sum, of so many parts."""

    value: float
    parts: int
    complete: bool = True
    notes: tuple[str, ...] = ()


def _unfinished(path: Path) -> Total | None:
    found = Total(**json.loads(path.read_text()))
    return None if found.complete else found


@dataclass(frozen=True, kw_only=True)
class Between(Settings):
    """Two ends."""

    low: float = param(0.0, "Low", "Lower end.")
    high: float = param(1.0, "High", "Upper end.")


@dataclass(frozen=True, kw_only=True)
class OpenTotal(Reading, verb="toy-open-total", makes={"total": Total}):
    """Open a sum."""

    file: File = part("File", "Text.")
    scale: float = param(1.0, "Scale", "That it gets.")

    @classmethod
    def at(cls, path: Any, **options: Any) -> "OpenTotal":
        """Return the operation that opens a file."""
        return cls(file=file(path), **options)


@dataclass(frozen=True, kw_only=True)
class AddUp(Operation, verb="toy-add-up", makes={"total": Total}):
    """Add the values of a volume up."""

    image: Ref[Volume] = given("Image", "What is added up.")
    power: float = param(1.0, "Power", "Of the values.")

    def steps(self, data: Any, **_: Any) -> Any:
        """Add."""
        yield Step(1, 1)
        return Total(float((data.image.array**self.power).sum()), 1, notes=("it was added up",))


@dataclass(frozen=True, kw_only=True)
class Sums(Operation, verb="toy-sums", makes={"total": Total}):
    """Add sums up, four times each."""

    continues = "total"
    words: ClassVar[Any] = {
        "between": Words(
            ("LOW", "HIGH"), lambda rows: tuple(Between(low=float(low), high=float(high)) for low, high in rows)
        )
    }

    totals: tuple[Ref[Total], ...] = given("Totals", "What is added up.")
    between: tuple[Between, ...] = part("Between", "Ends.", default=())

    def steps(self, data: Any, *, device: Any, stop: Any, known: Any = None) -> Any:
        """Add."""
        value, done = (0.0, 0) if known is None else (known.value, known.parts)
        each = sum(one.value for one in data.totals)
        for parts in range(done + 1, 5):
            value += each
            yield Step(parts, 4).showing(Total(value, parts, complete=False))
            if stop.is_set():
                return Total(value, parts, complete=False)
        return Total(value, 4)


def _write(total: Total, path: Path, _: Any) -> None:
    path.write_text(json.dumps({**vars(total), "notes": []}))


register_kind(
    Total,
    counts=lambda one: (one.value, one.parts),
    endings=("",),
    write=_write,
    opens=OpenTotal,
    unfinished=_unfinished,
)
register_conversion(Conversion(AddUp, "image", lambda path: path.name.endswith(".nii")))


@pytest.fixture(autouse=True)
def _toys(monkeypatch):
    """A command line of one of these verbs."""

    def make_parser(_=()):
        parser = Parser(prog="napari-gpubio")
        verbs = parser.add_subparsers(required=True)
        add_verb(verbs, Sums)
        add_common(verbs.choices)
        return parser

    monkeypatch.setattr(cli, "make_parser", make_parser)


@pytest.fixture
def volumes(tmp_path):
    """Two files whose values add up to 60 and 120."""
    for n in (1, 2):
        write_volume(tmp_path / f"v{n}.nii", np.full((3, 4, 5), n, np.float32), np.eye(4))
    return tmp_path


def call(*words):
    return cli.main(["toy-sums", *map(str, words), "--device", "cpu"])


def result(path):
    return json.loads(path.read_text())


def test_a_file_of_another_kind_is_converted_and_that_is_said(volumes, capsys):
    assert call(volumes / "v1.nii", "--out", volumes / "t", "--record", volumes / "r.json") == 0
    assert result(volumes / "t")["value"] == 4 * 60
    printed = capsys.readouterr().err
    assert "v1.nii is a volume, of which toy-add-up makes the total" in printed
    assert "it was added up" in printed
    assert read_record(volumes / "r.json") == Sums(totals=(AddUp(image=OpenVolume.at(volumes / "v1.nii")),))


def test_options_say_of_which_kind_a_file_is(volumes, capsys):
    assert call(volumes / "v2.nii", "--power", 2, "--record", volumes / "r.json") == 0
    (total,) = read_record(volumes / "r.json").totals
    assert total.of == AddUp(image=OpenVolume.at(volumes / "v2.nii"), power=2.0)
    assert call(volumes / "v2.nii", "--power", 2, "--scale", 3, "--record", volumes / "s.json") == 2
    assert "of files of different kinds" in capsys.readouterr().err


def test_patterns_name_files_and_words_of_a_verb_make_its_field(volumes, capsys):
    words = "--between", 1, 2, "--between", -3, 4, "--record", volumes / "r.json"
    assert call(volumes / "v*.nii", *words) == 0
    record = read_record(volumes / "r.json")
    assert len(record.totals) == 2
    assert record.between == (Between(low=1.0, high=2.0), Between(low=-3.0, high=4.0))
    assert call(volumes / "x*.nii", "--record", volumes / "s.json") == 2
    assert "no file is called" in capsys.readouterr().err


def test_a_run_that_was_stopped_goes_on_with_its_file(volumes, monkeypatch, capsys):
    out, steps = volumes / "t", Sums.steps

    def stopping(self, data, *, device, stop, known=None):
        for step in (made := steps(self, data, device=device, stop=stop, known=known)):
            if step.done == 2:
                stop.set()
            yield step
        assert made is not None
        return Total(2 * 60.0, 2, complete=False)

    with monkeypatch.context() as patch:
        patch.setattr(Sums, "steps", stopping)
        assert call(volumes / "v1.nii", "--out", out) == Exit.STOPPED
        assert "the same command goes on" in capsys.readouterr().err
    assert result(out) == {"value": 120.0, "parts": 2, "complete": False, "notes": []}
    assert call(volumes / "v1.nii", "--out", out) == 0
    assert "goes on with t" in capsys.readouterr().err
    assert result(out)["value"] == 4 * 60
    assert call(volumes / "v1.nii", "--out", out) == 2, "what is complete is not replaced"
    assert "there is already" in capsys.readouterr().err


def test_a_verb_takes_what_another_engine_makes_in_a_fresh_process(tmp_path):
    command = [sys.executable, "-m", "napari_gpubio.cli", "clean-fluence", "nothing.npz", "-o", "clean.nii.gz"]
    failed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert failed.returncode == 2
    assert "nothing.npz does not exist" in failed.stderr
