"""Whether the lower bounds are no higher than SPEC 0 has them: Python of 3 years, NumPy and SciPy of 2 are supported.

python .ci/spec0.py        asks the index, through uv
"""

import datetime
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = ("numpy", "scipy")  # of the packages that SPEC 0 names, those that are not extras


def bound(name: str) -> str:
    """Lowest version of a package that is supported."""
    (found,) = [one.partition(">=")[2] for one in PROJECT["dependencies"] if one.startswith(f"{name}>=")]
    return found


def newest_series(requirement: str, *, before: str = "") -> str:
    """Series, such as 1.14, of the newest version that fits; of those that had been released before a day."""
    command = ["uv", "pip", "compile", "-q", "--no-deps", "--no-header", "--python-version", "3.11", "-"]
    command += ["--exclude-newer", before] if before else []
    done = subprocess.run(command, input=requirement, capture_output=True, text=True, check=True)
    return ".".join(done.stdout.partition("==")[2].split(".")[:2])


def main() -> int:
    """Print what is supported; the exit status is 1 if that is not enough."""
    today = datetime.date.today()
    minor = int(re.sub(r"\D*3\.", "", PROJECT["requires-python"]))
    late = [] if datetime.date(2010 + minor, 11, 1) <= today.replace(year=today.year - 3) else [f"Python 3.{minor - 1}"]
    for name in CORE:
        below = f"{name}<{bound(name)}"
        dropped = newest_series(below)
        if newest_series(below, before=str(today.replace(year=today.year - 2, day=1))) != dropped:
            late.append(f"{name} {dropped}")
        print(f"{name}: {bound(name)} and newer; the newest series that is not supported is {dropped}")
    print(f"too new to be left out: {', '.join(late)}" if late else "SPEC 0 is met")
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
