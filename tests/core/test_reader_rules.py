"""Files of others are taken through the doors of `core.foreign`, `core.archives` and `core.hdf5` alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import napari_gpubio

PACKAGE = Path(napari_gpubio.__file__).parent
CALLS = {"open", "gzip.open", "io.FileIO", "mmap.mmap", "zipfile.ZipFile", "h5py.File", "json.load", "json.loads"}
CALLS |= {f"np.{name}" for name in ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")}
METHODS = {"read_bytes", "read_text"}
HEADER = "looks at a header of fixed length, and at the size, before it takes more"
OWN = "reads what this package has installed or written itself"
ALLOWED = {
    "core/foreign.py": "is the door of texts, JSON, tables, numbers and maps",
    "core/archives.py": "is the door of archives and gzip",
    "core/hdf5.py": "is the door of HDF5, and reads what its own process has sent",
    "core/files.py": "looks at the first bytes, sums files up in blocks, and reads the sources of the package",
    "core/jit.py": OWN,
    "core/operations/files.py": "looks at the first 4,096 bytes",
    "core/operations/arrays.py": OWN,
    "core/volumes.py": "looks at 30 bytes of a header that nibabel has read",
    "core/odd_nifti.py": HEADER,
    "core/device.py": "reads /proc/cpuinfo of the kernel",
    "core/kernels.py": OWN,
    "core/warmup.py": OWN,
    "gui/help_window.py": OWN,
    "core/layer_files.py": "turns its own values into JSON's",
    "dose/io/dicom.py": "maps a file whose elements are skipped by their lengths",
    "mcx/io/domain.py": "reads raw values behind a check of the size",
    "mcx/io/inp.py": "looks at the first 1,000 bytes",
    "mcx/io/root.py": "looks at the first 4,096 bytes",
    "optics/tissue/optics.py": OWN,
    "speckle/io/frames.py": HEADER,
    "speckle/io/tiff.py": HEADER,
    "speckle/io/tiff_pages.py": "reads strips whose lengths were checked",
    "tractograms/io/blocks.py": HEADER,
    "core/mif.py": HEADER,
    "tractograms/io/trx_members.py": "reads members whose sizes were checked",
    "tractograms/io/tsf.py": "looks at the first 64 KB",
    "tractograms/io/validation.py": "is the door of tractograms, which looks at the beginning and at the memory",
}


def bare(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each call that reads a file without a look at it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, method = ast.unparse(node.func), node.func.attr if isinstance(node.func, ast.Attribute) else ""
        words = [one.value for one in (*node.args, *(k.value for k in node.keywords)) if isinstance(one, ast.Constant)]
        modes = [word for word in words if isinstance(word, str) and re.fullmatch(r"[rwxa][bt]?\+?b?", word)]
        is_path = bool(modes) or ("path" in name.lower() and not words)
        if all(mode in ("r", "rb", "rt") for mode in modes) and (
            name in CALLS or method in METHODS or (method == "open" and is_path)
        ):
            yield node.lineno, name


def test_no_reader_has_a_door_of_its_own():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if calls := list(bare(ast.parse(path.read_text(encoding="utf-8")))):
            found[place] = calls
    assert {place: calls for place, calls in found.items() if place not in ALLOWED} == {}
    assert sorted(set(ALLOWED) - set(found)) == [], "needs no leave any more"


@pytest.mark.parametrize(
    "line",
    [
        "np.load(path)", "np.loadtxt(path)", "np.genfromtxt(path)", "json.load(stream)", "json.loads(text)",
        "h5py.File(path, 'r')", "h5py.File(path)", "open(path)", "open(path, 'rb')", "path.open('rb')",
        "path.open(mode='r')", "gzip.open(path)", "path.open()",
        "path.read_text()", "Path(a).read_bytes()", "zipfile.ZipFile(path)",
    ],
)  # fmt: skip
def test_the_rule_finds(line):
    assert len(list(bare(ast.parse(line)))) == 1


@pytest.mark.parametrize(
    "line", ["path.open('w')", "path.open('r+b')", "h5py.File(path, 'w')", "camera.open()", "json.dumps(a)"]
)
def test_the_rule_passes_over(line):
    assert not list(bare(ast.parse(line)))
