"""start.py: the decisions it takes before it installs and runs."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_start():
    spec = importlib.util.spec_from_file_location("start", ROOT / "start.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def start(tmp_path, monkeypatch):
    """The script as a module, with an empty folder for its .venv and no process that really runs."""
    module = load_start()
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp.json")
    module.calls = []

    def run(command, **how):
        module.calls.append([str(word) for word in command])
        module.how = how
        return module.subprocess.CompletedProcess(command, module.status, module.output, "")

    module.status, module.output = 0, "3 12"
    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr(
        module, "run_to_an_end", lambda command, *more, **how: run(command, waits=more[1:], **how).returncode
    )
    monkeypatch.setattr(module, "require_libraries", lambda names: None)
    monkeypatch.setattr(module, "cuda_extras", list)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return module


@pytest.fixture
def with_environment(start):
    """A .venv that works and has everything."""
    for name in ("python", "napari-gpubio"):
        start.venv_program(name).parent.mkdir(parents=True, exist_ok=True)
        start.venv_program(name).touch()
    start.STAMP.write_text(json.dumps({"project": start.project_hash(), "extras": ["all"], "groups": ["test"]}))
    return start


@pytest.mark.parametrize(
    ("line", "capabilities", "extra"),
    [
        ("| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |", "9.0\n", "cuda13"),
        ("| NVIDIA-SMI 610.1   KMD Version: 610.1   CUDA UMD Version: 14.2 |", "12.0\n", "cuda13"),
        ("| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |", "9.0\n6.1\n", "cuda12"),
        ("| NVIDIA-SMI 535.1   Driver Version: 535.1   CUDA Version: 12.2 |", "7.5\n", "cuda12"),
        ("| NVIDIA-SMI 470.1   Driver Version: 470.1   CUDA Version: 11.4 |", "7.5\n", None),
        ("No devices were found", "", None),
    ],
)
def test_cuda_packages_follow_the_driver_and_the_gpu(start, line, capabilities, extra):
    chosen, why = start.choose_cuda(line, capabilities)
    assert chosen == extra
    assert why


def test_the_first_call_makes_and_fills_the_environment_the_second_does_not(start, with_environment):
    start.STAMP.unlink()
    start.venv_program("python").unlink()
    assert start.main(["demo"]) == 0
    venv, pip, warm, demo = start.calls
    assert warm[-1] == "warm"
    assert venv[1:3] == ["-m", "venv"]
    assert pip[-2:] == ["-e", f"{start.ROOT}[all]"]
    assert demo[1:] == ["demo", "--headless"]
    start.venv_program("python").touch()
    start.calls.clear()
    assert start.main(["demo"]) == 0
    assert [call[1] for call in start.calls] == ["-c", "-m", "demo"]


def test_more_extras_and_groups_are_added_to_what_is_there(start, with_environment, capsys):
    start.STAMP.write_text(json.dumps({"project": start.project_hash(), "extras": ["all", "cuda13"]}))
    start.install(["all", "zarr"], ["test"])
    pip = start.calls[-1]
    at = pip.index("-e") + 1
    assert pip[at].endswith("[all,cuda13,zarr]")
    assert pip[at + 1 :] == start.requirements("test")
    assert "installing napari-gpubio[all,cuda13,zarr] and its test group into" in capsys.readouterr().out
    assert start.is_installed(["zarr", "cuda13"], ["test"])


def test_a_changed_project_is_installed_again_with_the_packages_of_its_groups(start, with_environment):
    start.STAMP.write_text(json.dumps({"project": "old", "extras": ["all"], "groups": ["test"]}))
    assert not start.is_installed(["all"], [])
    start.install(["all"], [])
    assert start.calls[-1][-1] == start.requirements("test")[-1]
    assert start.is_installed(["all"], ["test"])


def test_a_group_is_read_with_the_groups_it_includes(start, tmp_path, monkeypatch):
    test, dev = start.requirements("test"), start.requirements("dev")
    assert set(test) < set(dev)
    assert any(requirement.startswith("pytest") for requirement in test)
    groups = '[dependency-groups]\na = ["x>=1", { include-group = "b" }, "z"]\nb = ["y; sys_platform == \'linux\'"]\n'
    (tmp_path / "pyproject.toml").write_text(groups)
    monkeypatch.setattr(start, "ROOT", tmp_path)
    assert start.requirements("a") == ["x>=1", "y; sys_platform == 'linux'", "z"]


def test_a_failed_installation_is_a_sentence_and_leaves_no_stamp(start, with_environment, monkeypatch, capsys):
    start.STAMP.write_text("{}")
    start.status = 1
    monkeypatch.setattr(start, "environment_works", lambda: True)
    assert start.main(["test"]) == 1
    assert "pip could not install napari-gpubio; its reason is above" in capsys.readouterr().err
    assert not start.STAMP.exists()


@pytest.mark.parametrize("xvfb", [True, False])
def test_tests_run_under_a_virtual_display_where_there_is_one(start, with_environment, monkeypatch, capsys, xvfb):
    monkeypatch.setattr(start.shutil, "which", lambda name: f"/usr/bin/{name}" if xvfb else None)
    monkeypatch.setattr(start.sys, "platform", "linux")
    assert start.main(["test", "tests/core", "-q"]) == 0
    assert start.calls[-1][0].endswith("xvfb-run" if xvfb else "python")
    assert start.calls[-1][-2:] == ["tests/core", "-q"]
    assert "pytest" in start.calls[-1]
    assert ("apt-get install -y xvfb" in capsys.readouterr().out) is not xvfb
    assert start.how == {"waits": (60 * start.LONGEST_MINUTES,), "cwd": start.ROOT}


def test_tests_share_workers_unless_the_user_says_otherwise(start, with_environment):
    start.main(["test"])
    assert "-n" in start.calls[-1]
    assert start.calls[-2][-1] == "warm"
    for words in (["-n0"], ["-n", "3"], ["--pdb"]):
        start.main(["test", *words])
        assert start.calls[-1].count("--dist") == 0
    assert start.how["cwd"] == start.ROOT  # a debugger, which no deadline ends


@pytest.mark.parametrize("words", [["--patience", "2.5"], ["--patience=2.5"]])
def test_who_has_patience_waits_longer(start, with_environment, words):
    start.main(["test", *words])
    assert start.how["waits"] == (150 * start.LONGEST_MINUTES,)


STARTING = f"""
import signal, sys
sys.path.insert(0, {str(ROOT)!r})
import start
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
child = "import subprocess, sys, time; more = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])"
command = [sys.executable, "-c", child + "; print(more.pid, flush=True); time.sleep(99)"]
try:
    sys.exit(start.run_to_an_end(command, None, float(sys.argv[1])))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals for one process")
@pytest.mark.every_case
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (None, 1)])
def test_nothing_that_the_tests_started_is_left_when_they_are_ended(number, status):
    seconds = "60" if number else "1"
    with subprocess.Popen([sys.executable, "-c", STARTING, seconds], stdout=subprocess.PIPE, text=True) as process:
        grandchild = psutil.Process(int(process.stdout.readline()))
        begun = time.monotonic()
        if number:
            process.send_signal(number)
        assert process.wait(30) == status
    while is_alive(grandchild) and time.monotonic() - begun < 5:
        time.sleep(0.05)  # a busy system takes a while to end what was killed
    assert not is_alive(grandchild)
    assert time.monotonic() - begun < 5


def is_alive(process):
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_warm_up_that_fails_stops_nothing_and_the_exit_status_is_passed_on(
    start, with_environment, monkeypatch, capsys
):
    monkeypatch.setattr(start, "environment_works", lambda: True)
    start.status = 5
    assert start.main(["demo"]) == 5
    assert "compiled when it is first used" in capsys.readouterr().out
    assert start.calls[-1][1:2] == ["demo"]
    assert start.main(["test"]) == 5


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="caches lie elsewhere")
def test_caches_are_where_there_is_room(start, tmp_path, monkeypatch, capsys):
    own, temporary = tmp_path / "own", tmp_path / "temporary"
    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    monkeypatch.setattr(start.tempfile, "tempdir", str(temporary))
    start.use_cache_with_room()
    assert os.environ["XDG_CACHE_HOME"] == str(own)
    own.rmdir()
    own.write_text("in the way")
    start.use_cache_with_room()
    assert Path(os.environ["XDG_CACHE_HOME"]).parent == temporary
    assert f"{own} cannot be written" in capsys.readouterr().out
    monkeypatch.setattr(start.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(start.SetupError, match="free 256 MB, or set XDG_CACHE_HOME"):
        start.use_cache_with_room()


def test_a_demo_with_a_display_has_windows(start, with_environment, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    start.main(["demo", "--seed", "3"])
    assert start.calls[-1][1:] == ["demo", "--seed", "3"]


def test_an_old_python_and_one_without_venv_are_sentences(start, monkeypatch, capsys):
    monkeypatch.setattr(start.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    assert start.main(["demo"]) == 1
    assert "without its module 'ensurepip'. Debian, Ubuntu: sudo apt-get install -y python3" in capsys.readouterr().err
    monkeypatch.setattr(start, "OLDEST", (9, 9))
    assert start.main(["demo"]) == 1
    assert "needs 9.9 or newer" in capsys.readouterr().err


def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch):
    module = load_start()
    monkeypatch.setattr(module.sys, "platform", "linux")
    with pytest.raises(module.SetupError, match=r"needs the system libraries libgone\.so\.7\. Install them: sudo"):
        module.require_libraries(("libgone.so.7",))


@pytest.mark.parametrize("arguments", [[], ["nonsense"]])
def test_without_a_verb_it_says_how_to_use_it(start, capsys, arguments):
    assert start.main(arguments) == 2
    assert "python3 start.py demo" in capsys.readouterr().out
