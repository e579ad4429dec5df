"""From a fresh clone to a running program in one command; needs nothing but Python 3.11 or newer.

    python3 start.py demo [--headless]            install into .venv, then show the plugin on sample data
    python3 start.py test [--all] [pytest args]   install into .venv, then run the tests: 5 minutes on two cores

The first call installs (some minutes, some hundred MB) and compiles (under a minute); later calls start at once.
Delete .venv to start over. Without --all one case in twelve of a test is run, and one slow test in 24;
--seed N repeats the choice of another day, and --patience 3 waits three times as long before tests are ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "napari-gpubio-installed.json"
EXTRAS = {"demo": ["all"], "test": ["all"]}
GROUPS = {"demo": [], "test": ["test"]}
OLDEST = (3, 11)
MAX_WORKERS = 4  # of the tests; each opens windows of its own
LONGEST_MINUTES = 130  # of the tests, which end by themselves before that; see tests/harness/deadlines.py
MIN_FREE = 256 << 20  # bytes of the disk of caches
GRACE_SECONDS = 3  # for what is asked to stop, before it is ended
XVFB = ["xvfb-run", "-a", "-s", "-screen 0 1600x1000x24"]
# What Qt needs of a Linux system: to be imported at all, and to open a window.
QT_LIBRARIES = ("libGL.so.1", "libEGL.so.1", "libfontconfig.so.1", "libglib-2.0.so.0", "libdbus-1.so.3")
WINDOW_LIBRARIES = (
    "libxkbcommon-x11.so.0",
    "libxcb-cursor.so.0",
    "libxcb-icccm.so.4",
    "libxcb-keysyms.so.1",
    "libxcb-shape.so.0",
)
APT = (
    "sudo apt-get update && sudo apt-get install -y xvfb xauth libgl1 libegl1 libxkbcommon-x11-0 libxcb-cursor0 "
    "libxcb-icccm4 libxcb-keysyms1 libxcb-shape0 libdbus-1-3 libfontconfig1 libglib2.0-0 fonts-dejavu-core g++"
)
DNF = (
    "sudo dnf install -y xorg-x11-server-Xvfb xorg-x11-xauth mesa-libGL mesa-libEGL libxkbcommon-x11 xcb-util-cursor "
    "xcb-util-wm xcb-util-keysyms libxcb dbus-libs fontconfig glib2 dejavu-sans-fonts gcc-c++"
)


class SetupError(Exception):
    """A problem that the user has to solve first; the message explains it."""


def main(arguments: list[str]) -> int:
    """Run the command and return the exit status."""
    if not arguments or arguments[0] not in EXTRAS:
        print(__doc__)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    command, rest = arguments[0], arguments[1:]
    try:
        check_python()
        install(EXTRAS[command] + cuda_extras(), GROUPS[command])
        use_cache_with_room()
        return run_demo(rest) if command == "demo" else run_tests(rest)
    except SetupError as problem:
        print(f"\nstart.py: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def check_python() -> None:
    """Refuse a Python that is too old."""
    if sys.version_info[:2] >= OLDEST:
        return
    have = ".".join(map(str, sys.version_info[:2]))
    how = "py -3.12 start.py" if os.name == "nt" else "python3.12 start.py"
    raise SetupError(
        f"this is Python {have} and napari-gpubio needs {OLDEST[0]}.{OLDEST[1]} or newer. Install one from "
        f"https://www.python.org/downloads (Debian, Ubuntu: sudo apt-get install -y python3.12 python3.12-venv), "
        f"then: {how}"
    )


# ------------------------------------------------------------------------------------------------------ installation


def install(extras: list[str], groups: list[str]) -> None:
    """Make .venv and install the project with extras and dependency groups, unless that is done already."""
    if not environment_works():
        make_environment()
    if is_installed(extras, groups):
        return
    stamp = read_stamp()
    extras = sorted({*extras, *stamp.get("extras", [])})
    groups = sorted({*groups, *stamp.get("groups", [])})
    needed = [requirement for group in groups for requirement in requirements(group)]
    names, also = ",".join(extras), "".join(f" and its {group} group" for group in groups)
    print(f"start.py: installing napari-gpubio[{names}]{also} into {VENV}", flush=True)
    pip = [str(venv_program("python")), "-m", "pip", "install", "--disable-pip-version-check"]
    STAMP.unlink(missing_ok=True)
    if run_to_an_end([*pip, "-e", f"{ROOT}[{names}]", *needed]):
        raise SetupError(
            "pip could not install napari-gpubio; its reason is above. Without a way to pypi.org set HTTPS_PROXY "
            "(or PIP_INDEX_URL for a mirror); where a package has no wheel for this Python, use Python 3.12. "
            "Then run the same command again."
        )
    STAMP.write_text(json.dumps({"project": project_hash(), "extras": extras, "groups": groups}), encoding="utf-8")


def requirements(group: str) -> list[str]:
    """List what a dependency group of pyproject.toml needs, included groups too."""
    import tomllib  # only here: a Python that lacks it is refused with a sentence

    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    needed = []
    for entry in groups[group]:
        needed += [entry] if isinstance(entry, str) else requirements(entry["include-group"])
    return needed


def make_environment() -> None:
    """Create .venv anew."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    version = ".".join(map(str, sys.version_info[:2]))
    advice = (
        f"Debian, Ubuntu: sudo apt-get install -y python{version}-venv; elsewhere take the whole Python "
        "from https://www.python.org/downloads"
    )
    if missing:
        raise SetupError(f"this Python comes without its module {missing[0]!r}. {advice}")
    print(f"start.py: making {VENV}", flush=True)
    if subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False).returncode:
        raise SetupError(f"python -m venv failed; its reason is above. {advice}")


def environment_works() -> bool:
    """Whether .venv has a Python that starts and is new enough."""
    python = venv_program("python")
    if not python.exists():
        return False
    try:
        command = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
        version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return False
    return tuple(map(int, version)) >= OLDEST


def venv_program(name: str) -> Path:
    """Path of a program of .venv."""
    return VENV / "Scripts" / f"{name}.exe" if os.name == "nt" else VENV / "bin" / name


def is_installed(extras: list[str], groups: list[str]) -> bool:
    """Whether this project is installed, according to the stamp, with at least these extras and groups."""
    stamp = read_stamp()
    has_all = set(extras) <= set(stamp.get("extras", [])) and set(groups) <= set(stamp.get("groups", []))
    return has_all and stamp.get("project") == project_hash()


def read_stamp() -> dict:
    """What the last installation wrote down."""
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def project_hash() -> str:
    """Hash of what decides which packages are installed, and where the project lies."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + str(ROOT).encode()).hexdigest()


def cuda_extras() -> list[str]:
    """Choose the CUDA packages that suit this machine's GPU and driver, and print the choice."""
    text = ask_nvidia_smi([])
    if text is None:
        return []
    capabilities = ask_nvidia_smi(["--query-gpu=compute_cap", "--format=csv,noheader"]) or ""
    extra, why = choose_cuda(text, capabilities)
    print(f"start.py: {why}", flush=True)
    return [extra] if extra else []


def choose_cuda(text: str, capabilities: str = "") -> tuple[str | None, str]:
    """Choose between cuda13, cuda12 and neither from what nvidia-smi prints, and give the reason."""
    found = re.search(r"CUDA(?:\s+\w+)?\s+Version:\s*(\d+)\.(\d+)", text)
    if found is None:
        return None, "nvidia-smi names no CUDA version; running without a GPU"
    version = f"{found[1]}.{found[2]}"
    old = [c for c in re.findall(r"^\s*(\d+\.\d+)\s*$", capabilities, re.MULTILINE) if float(c) < 7.5]
    if int(found[1]) >= 13 and not old:
        return "cuda13", f"the driver supports CUDA {version}: taking cuda13"
    if int(found[1]) >= 13:
        return "cuda12", f"the driver supports CUDA {version}, but a GPU of capability {old[0]} needs cuda12"
    if int(found[1]) == 12:
        return "cuda12", f"the driver supports CUDA {version}: taking cuda12"
    return None, f"the driver supports CUDA {version} only; running without a GPU until it is 525 or newer"


def ask_nvidia_smi(arguments: list[str]) -> str | None:
    """What nvidia-smi prints, or None where it is not there or does not work."""
    if sys.platform == "darwin" or shutil.which("nvidia-smi") is None:
        return None
    try:
        done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


# ----------------------------------------------------------------------------------------------------------- running


def run_demo(arguments: list[str]) -> int:
    """Run the demo where the user is; without a display, headless."""
    if not has_display() and "--headless" not in arguments:
        print("start.py: there is no display, so the demo runs with --headless", flush=True)
        arguments = ["--headless", *arguments]
    if "--headless" not in arguments:
        require_libraries(QT_LIBRARIES + WINDOW_LIBRARIES)
    compile_ahead()
    program = venv_program("napari-gpubio")
    if not program.exists():
        raise SetupError(f"{program} is not there; delete {VENV} and run the same command again")
    return subprocess.run([str(program), "demo", *arguments], check=False).returncode


def use_cache_with_room() -> None:
    """Let napari and ours keep what can be made again among the temporary files if the user's folder takes nothing."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if not sys.platform.startswith("linux") or has_room(folder):
        return
    other = Path(tempfile.gettempdir()) / f"napari-gpubio-cache-{os.getuid()}"
    if not has_room(other):
        raise SetupError(
            f"neither {folder} nor {other} can be written, or their disks are full; free {MIN_FREE >> 20} MB, "
            "or set XDG_CACHE_HOME to a folder with more"
        )
    print(f"start.py: {folder} cannot be written, or its disk is full; using {other} instead", flush=True)
    os.environ["XDG_CACHE_HOME"] = str(other)


def has_room(folder: Path) -> bool:
    """Whether the user can write a folder and its disk has room."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return shutil.disk_usage(folder).free >= MIN_FREE and folder.stat().st_uid == os.getuid()
    except OSError:
        return False


def compile_ahead() -> None:
    """Compile the CPU backends, once for this machine; without that the first runs would wait for the compiler."""
    print("start.py: compiling the CPU backends, once for this machine", flush=True)
    if run_to_an_end([str(venv_program("python")), "-m", "napari_gpubio.cli", "warm"]):
        print("start.py: not everything could be compiled ahead; it is compiled when it is first used", flush=True)


def run_tests(arguments: list[str]) -> int:
    """Run pytest in the project's folder, under a virtual display where there is none."""
    require_libraries(QT_LIBRARIES)
    compile_ahead()
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the processes of the tests would all compile the libraries
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")  # of each worker; more wait for each other
    command = [str(venv_program("python")), "-m", "pytest", *parallel_options(arguments), *arguments]
    if has_display():
        require_libraries(WINDOW_LIBRARIES)
    elif shutil.which("xvfb-run") and shutil.which("xauth"):
        require_libraries(WINDOW_LIBRARIES)
        command = XVFB + command
        environment.setdefault("LIBGL_ALWAYS_SOFTWARE", "1")
        environment.setdefault("LP_NUM_THREADS", "0")  # the workers have all cores already
    else:
        print(
            "start.py: there is no display and no xvfb-run, so the tests that need one are skipped; "
            f"to run them: {system_packages()}",
            flush=True,
        )
    if "--pdb" in arguments:  # a debugger reads what the user types, which only this terminal's own processes can
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    return run_to_an_end(command, environment, 60 * LONGEST_MINUTES * patience(arguments), cwd=ROOT)


def patience(arguments: list[str]) -> float:
    """Read how many times longer than usual the tests may take."""
    found = re.search(r"--patience[= ](\d+(?:\.\d+)?)", " ".join(arguments))
    return float(found[1]) if found else 1.0


def run_to_an_end(
    command: list[str], environment: dict[str, str] | None = None, seconds: float | None = None, cwd: Path | None = None
) -> int:
    """Run a command and return its exit status; nothing that it started is left, whatever ends it."""
    on_windows = os.name == "nt"
    apart = {"creationflags": 0x200} if on_windows else {"start_new_session": True}  # a process group of its own
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    process = subprocess.Popen(command, cwd=cwd, env=environment, **apart)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired as problem:
        minutes = problem.timeout / 60
        print(f"start.py: this has not ended after {minutes:.0f} minutes, and is ended", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("\nstart.py: ending what was started", file=sys.stderr, flush=True)
        process.send_signal(signal.CTRL_BREAK_EVENT) if on_windows else signal_all(process, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(GRACE_SECONDS)
        raise
    finally:
        if on_windows:
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
        else:
            signal_all(process, signal.SIGKILL)
        process.wait()
        signal.signal(signal.SIGTERM, before)


def signal_all(process: subprocess.Popen, number: int) -> None:
    """Send a signal to a process and to all that it started, as far as they are there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def parallel_options(arguments: list[str]) -> list[str]:
    """Options that share the tests among workers, unless the user gives some."""
    if any(word.startswith("-n") or word == "--pdb" for word in arguments):
        return []
    return ["-n", str(min(MAX_WORKERS, os.cpu_count() or 1)), "--dist", "loadfile"]


def has_display() -> bool:
    """Whether a window could be shown."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def require_libraries(names: tuple[str, ...]) -> None:
    """Name the missing system libraries of Qt and the command that installs them."""
    if not sys.platform.startswith("linux"):
        return
    missing = [name for name in names if not can_load(name)]
    if missing:
        raise SetupError(f"Qt needs the system libraries {', '.join(missing)}. Install them: {system_packages()}")


def can_load(library: str) -> bool:
    """Whether the system has a shared library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def system_packages() -> str:
    """Give the command that installs the system packages here."""
    if shutil.which("apt-get") is None and shutil.which("dnf"):
        return DNF
    return APT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
