"""Whether a wheel and an sdist are fit for an index: all files in them, small, and a README that any page can show.

python .ci/check_packages.py dist/*.whl dist/*.tar.gz
"""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGE, SAMPLES = Path("napari_gpubio"), Path("sample_data")
PATTERNS = ("*.cu", "*.cuh", "*.py", "*.csv", "napari.yaml", "py.typed")
LARGEST = 5_000_000
_LINK = re.compile(r"\]\(\s*([^)\s]+)|(?:src|href)=[\"']([^\"']+)")


def wanted() -> set[str]:
    """Files that the package needs, as a wheel names them."""
    own = {path.as_posix() for pattern in PATTERNS for path in PACKAGE.rglob(pattern)}
    samples = {(PACKAGE / path).as_posix() for path in SAMPLES.rglob("*") if path.is_file()}
    if not samples:
        sys.exit("there are no sample data")
    return own | samples


def relative_links(text: str) -> list[str]:
    """Links of a page that lead nowhere on another site."""
    links = (one or other for one, other in _LINK.findall(text))
    return [link for link in links if not re.match(r"https?://|mailto:|#", link)]


def problems(wheel: Path, sdist: Path) -> list[str]:
    """What is wrong with them."""
    found = [f"{one.name} has {one.stat().st_size} bytes" for one in (wheel, sdist) if one.stat().st_size > LARGEST]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        about = archive.read(metadata).decode()
    found += [f"the wheel lacks {name}" for name in sorted(wanted() - names)]
    with tarfile.open(sdist) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    found += [f"the sdist lacks {name}" for name in ("pyproject.toml", "README.md", "LICENSE") if name not in there]
    extra = {name.partition("/")[0] for name in there} & {"benchmarks", "docs", "tests", ".ci", ".venv"}
    found += [f"the sdist has {name}" for name in sorted(extra)]
    return found + [f"README.md links to {link}, which is relative" for link in relative_links(about)]


if __name__ == "__main__":
    if wrong := problems(*map(Path, sys.argv[1:])):
        sys.exit("\n".join(wrong))
    print(f"all {len(wanted())} files, at most {LARGEST} bytes each package, and no relative link")
