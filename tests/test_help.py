"""The help of every verb: on one screen, whole with ``--help-all``, with commands that can be given as they are."""

import shlex
import shutil
import subprocess
import sys

import pytest

from napari_gpubio import cli
from napari_gpubio.core.completion import completion
from napari_gpubio.core.report import Exit
from napari_gpubio.verbs import OF_ENGINES, listed

SCREEN, COLUMNS = 40, 100


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


@pytest.fixture(scope="module")
def verbs():
    """Names of all verbs of the command line."""
    return [*cli._parsers(None)[1].choices]


def _help(capsys, *words):
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == Exit.DONE
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= COLUMNS, words
    return printed


def examples_in(printed):
    """The commands among the lines of a help, each as one line."""
    lines = printed.replace(" \\\n", " ").splitlines()
    return [line for line in lines if line.startswith("  napari-gpubio ")]


def test_every_verb_says_what_is_needed_on_a_screen_and_its_examples_can_be_given(capsys, verbs):
    for verb in verbs:
        printed = _help(capsys, verb, "--help")
        assert len(printed.splitlines()) <= SCREEN, verb
        assert printed.startswith(f"usage: napari-gpubio {verb} ")
        examples = examples_in(printed) + examples_in(_help(capsys, verb, "--help-all"))
        assert examples, verb
        for example in examples:
            words = shlex.split(example)[1:]
            options = cli.make_parser(words).parse_args(words)
            assert (words[0], callable(options.run)) == (verb, True)


def test_the_whole_help_has_every_option_under_a_heading(capsys):
    printed = _help(capsys, "light", "--source", "fiber", "--help-all")
    short = _help(capsys, "light", "--source", "fiber", "--help")
    for heading in ("inputs: ", "results, ", "settings:", "source: fiber:", "how files are read:", "every verb has:"):
        assert f"\n{heading}" in printed
    for option in ("--halves", "--roulette-threshold", "--outside-n", "--record", "--force"):  # advanced ones, too
        assert f"\n  {option} " in printed
        assert f"\n  {option} " not in short
    assert "--source WORD" in short
    assert "--[no-]refraction" in short


def test_the_program_lists_all_verbs_on_a_screen_and_imports_no_engine_for_it(capsys, verbs):
    printed = _help(capsys, "--help")
    assert len(printed.splitlines()) <= SCREEN
    named = {word.rstrip(",") for word in printed.split()}
    assert {one for one in verbs if not one.startswith("open-")} <= named
    assert {verb for engine in OF_ENGINES for verb in listed(engine)} <= {*verbs}
    for status in Exit:
        assert f"{int(status):5}  {status.meaning}" in printed
    code = "import sys; from napari_gpubio.cli import make_parser; make_parser(['--help']); "
    code += "print(*[name for name in sys.modules if name.endswith('.operations') and name.count('.') == 2])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["napari_gpubio.core.operations"]
    every = _help(capsys, "--help-all")
    assert all(f"\n    {verb}" in every for verb in verbs if not verb.startswith("open-") and verb not in READS)


READS = ("box", "sphere", "dose-of", "labels-of")  # what all verbs do with their inputs


def test_a_word_that_is_no_verb_gets_the_one_that_was_meant(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["trak", "dwi.nii.gz"])
    assert end.value.code == Exit.REFUSED
    assert "did you mean track" in capsys.readouterr().err


# -- exit statuses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "status"),
    [(KeyboardInterrupt(), Exit.STOPPED), (BrokenPipeError(), Exit.PIPE_CLOSED), (KeyError("x"), Exit.DEFECT)],
)
def test_the_status_says_how_a_command_ended(monkeypatch, capsys, raised, status):
    def fails(_):
        raise raised

    monkeypatch.setattr(cli, "_info", fails)
    assert cli.main(["info"]) == status
    assert ("Traceback" in capsys.readouterr().err) == (status is Exit.DEFECT)


def test_a_check_that_fails_has_a_status_of_its_own(monkeypatch, capsys):
    rows = [{"case": "a", "source": "b", "quantity": "c", "passed": False}]
    monkeypatch.setattr(cli, "run_check", lambda *_: rows)
    monkeypatch.setattr(cli, "_panels", lambda _: [])
    assert cli.main(["check", "dose", "--device", "cpu"]) == Exit.NOT_PASSED
    assert "0 of" in capsys.readouterr().out


# -- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_verbs_options_and_choices(tmp_path):
    script = tmp_path / "napari-gpubio"
    script.write_text(completion(*cli._parsers(None), "bash"), encoding="utf-8")
    (tmp_path / "dwi.nii.gz").touch()

    def completed(*words):
        given = " ".join(map(shlex.quote, words))
        code = f"source {script}; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _shtab_napari_gpubio; "
        code += "echo ${COMPREPLY[@]}"
        done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return {*done.stdout.split()}

    assert completed("napari-gpubio", "dv") == {"dvh"}
    assert completed("napari-gpubio", "track", "d") == {"dwi.nii.gz"}
    assert completed("napari-gpubio", "track", "dwi.nii.gz", "--method", "ham") == {"hamiltonian"}
    assert "--radius-mm" in completed("napari-gpubio", "light", "x.nii", "--rad")  # of a source that is not the usual
