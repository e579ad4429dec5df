"""Results as derivatives of BIDS: their JSON files with records and sources, and what the dataset says of itself.

Maps of models are named as BIDS extension proposal 16 has it, tractograms as proposal 46. The validator knows neither
of these drafts, nor fluence, forward models, connectomes and dose-volume tables: ``.bidsignore`` names them.
"""

import argparse
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio import __version__
from napari_gpubio.core.bids import DESCRIPTION
from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import write_text
from napari_gpubio.core.foreign import existing_json
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.command_runs import run_verb
from napari_gpubio.core.operations.files import output_of_record, record_of_output
from napari_gpubio.core.operations.graphs import files_of
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.reading import note
from napari_gpubio.core.report import Exit
from napari_gpubio.workflows.bids.dataset import RT, Dataset

NOT_IN_BIDS = ("dwimap", "tractogram", "connectome", "forward", "fluence", "dvh")  # suffixes
_NAME, _URL = "napari-gpubio", "https://github.com/napari-gpubio/napari-gpubio"
_ABOUT = f"""Results of napari-gpubio {__version__}: see {DESCRIPTION}.

The JSON file of each result has the record of what made it under "{KEY}", and the files that it was made from under
"Sources". Files of the suffixes {", ".join(NOT_IN_BIDS)} follow drafts of BIDS (extension proposals 16 and
46) or are plain derivatives, so that .bidsignore names them.
"""


class Stopped(GpuBioError):
    """A run was stopped by the user."""


class Occupied(GpuBioError):
    """Where a result goes there is another one."""


def file_beside(path: Path) -> Path:
    """Return the JSON file of a result."""
    return path.with_name(f"{path.name.partition('.')[0]}.json")


@dataclass(frozen=True)
class Derivatives:
    """A folder of results of a dataset, which a command makes with the options ``device``, ``force`` and ``json``."""

    folder: Path
    raw: Dataset
    options: argparse.Namespace

    def begin(self) -> None:
        """Write what the folder is; InvalidInput if it holds something else."""
        if self.folder.resolve() == self.raw.folder.resolve():
            raise InvalidInput(f"{self.folder} is the dataset itself; give another folder for results")
        path = self.folder / DESCRIPTION
        says = existing_json(path) if path.is_file() else {"GeneratedBy": []}
        makers = says.get("GeneratedBy") if isinstance(says, dict) else None
        if not isinstance(makers, list) or any(not isinstance(one, dict) or one.get("Name") != _NAME for one in makers):
            raise InvalidInput(f"{self.folder} has results of another program; give another folder")
        if not path.is_file() and self.folder.is_dir() and any(self.folder.iterdir()) and not self.options.force:
            raise InvalidInput(f"{self.folder} is not empty; give another folder, or --force")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"{self.folder} cannot be made ({error.strerror}); give another folder") from error
        place = _uri(self.raw.folder, self.folder)
        about = {
            "Name": f"Results of {_NAME}", "BIDSVersion": "1.10.0", "DatasetType": "derivative",
            "GeneratedBy": [{"Name": _NAME, "Version": __version__, "CodeURL": _URL}],
            "SourceDatasets": [{"URL": place}], "DatasetLinks": {"raw": place},
        }  # fmt: skip
        write_text(path, json.dumps(about, indent=1) + "\n")
        write_text(self.folder / "README.md", _ABOUT)
        write_text(self.folder / ".bidsignore", "".join(f"*_{one}.*\n" for one in NOT_IN_BIDS) + f"{RT}\n")

    def make(self, operation: Operation, files: Mapping[str, tuple[Path, Mapping[str, Any]]]) -> bool:
        """Do an operation and write results by their names, unless that is done already; returns whether it did.

        Parameters
        ----------
        operation
            The operation.
        files
            Where results go, and what their JSON files say beside record and sources. Those of one stem share a file.

        Raises
        ------
        InvalidInput
            As of the operation.
        Occupied
            If files are there that something else has made, and ``--force`` is not given.
        Stopped
            If the user has stopped it; what `Operation.continues` is kept.
        """
        paths = {name: path for name, (path, _) in files.items()}
        if all(_made_by(path) == operation.id and path.exists() for path in paths.values()):
            note(f"{', '.join(path.name for path in paths.values())}: complete, and not made again")
            return False
        there = [path for name, path in paths.items() if path.exists() and name != operation.continues]
        if there and not self.options.force:
            raise Occupied(f"{there[0]} was made in another way; give another folder, or --force to replace it")
        if run_verb(operation, {path.name: (name, path) for name, path in paths.items()}, self.options) == Exit.STOPPED:
            for path in (path for name, path in paths.items() if name != operation.continues):
                path.unlink(missing_ok=True)  # a part of a result, which may be taken for all of it
            raise Stopped("stopped; the same command goes on")
        sources = sorted({self.uri(Path(one.path)) for one in files_of(operation)})
        for name, (path, about) in files.items():
            describe(path, {**about, "Sources": sources}, {RECORD: record_of_output(operation.output(name))})
        return True

    def uri(self, path: Path) -> str:
        """Return the BIDS URI of a file, or its place where it lies in neither dataset."""
        full = Path(os.path.abspath(path))  # noqa: PTH100 - links of data stores are not followed
        for name, folder in (("", self.folder), ("raw", self.raw.folder)):
            if full.is_relative_to(folder.absolute()):
                return f"bids:{name}:{full.relative_to(folder.absolute()).as_posix()}"
        return full.as_uri()


def describe(path: Path, about: Mapping[str, Any], ours: Mapping[str, Any] | None = None) -> None:
    """Add to what the JSON file of a result says; ``ours``: of this program alone."""
    says = _said(path)
    says = {**says, **about, KEY: {**says.get(KEY, {}), **(ours or {})}}
    write_text(file_beside(path), json.dumps(says, indent=1, ensure_ascii=False) + "\n")


def _said(path: Path) -> dict[str, Any]:
    """What the JSON file of a result says; nothing if there is none, or it is cut off."""
    with suppress(InvalidInput):
        if isinstance(says := existing_json(file_beside(path)), dict):
            return says
    return {}


def _made_by(path: Path) -> str:
    """Identity of the operation that made a result, by its JSON file; empty if that does not tell."""
    ours = _said(path).get(KEY)
    output = output_of_record(ours.get(RECORD)) if isinstance(ours, dict) else None
    return "" if output is None else output.of.id


def _uri(folder: Path, home: Path) -> str:
    """A folder as seen from another one, if it lies around that, so that both can be moved together."""
    full, home = folder.resolve(), home.resolve()
    return Path(os.path.relpath(full, home)).as_posix() if home.is_relative_to(full) else full.as_uri()
