"""Connectomes of fibers, and of geodesics: verbs."""

import dataclasses
import functools
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import MAX_WHOLE, existing_numbers
from napari_gpubio.core.operations.kinds import MadeOf, register_kind
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Summary, given
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.tractograms.connectome.model import COUNT, LENGTH, Connectome, RegionMatrices
from napari_gpubio.tractograms.connectome.run import connectome_steps
from napari_gpubio.tractograms.connectome.settings import ConnectomeSettings
from napari_gpubio.tractograms.operations.fibers import Fibers, source_of


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of the regions of a connectome or a flow, shape (R, R); NaN where there is nothing for it."""

    connectome: RegionMatrices
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MatrixSettings(Settings):
    """Which matrix is made of a connectome."""

    of: str = param(COUNT, "Values", "What is put together of the fibers: count, length_mm, or a number of theirs.")
    statistic: str = param(
        "auto",
        "Statistic",
        "How the fibers of an edge are put together; auto: sum of counts, else mean.",
        choices=("auto", "sum", "mean", "min", "max"),
    )
    per_node_volume: bool = param(False, "Per volume", "Divide by the mean volume of the two regions.")
    per_length: bool = param(False, "Per length", "Divide by the length of each fiber.")

    def matrix(self, connectome: Connectome, weights: Any = None) -> Matrix:
        """Return the matrix."""
        statistic: Any = None if self.statistic == "auto" else self.statistic
        how = {"per_node_volume": self.per_node_volume, "per_length": self.per_length}
        return Matrix(connectome, connectome.matrix(self.of, statistic=statistic, weights=weights, **how))


@dataclass(frozen=True, kw_only=True)
class OpenConnectome(Reading, verb="open-connectome", makes={"connectome": Connectome}):
    """Open a whole connectome (npz), from which every matrix can be made."""

    file: File = part("File", "npz of this program.")

    def read(self, data: Any) -> Connectome:
        """Read it."""
        return Connectome.load(data.file)


def _write(found: Connectome, path: Path, record: Mapping[str, Any]) -> None:
    """Of a run that goes on in a tenth of the time."""
    parameters = {**found.parameters, "record": dict(record)}
    dataclasses.replace(found, parameters=parameters).save(path, compress=found.complete)


register_kind(
    Connectome,
    counts=lambda one: (one.labels, one.names, one.voxels, one.pairs, one.fibers, one.numbers),
    endings=(".npz",),
    write=_write,
    opens=OpenConnectome,
    unfinished=Connectome.unfinished,
)
register_kind(
    Matrix,
    counts=lambda one: (one.values, one.connectome.names),
    endings=("",),
    write=lambda matrix, path, _: matrix.connectome.save_csv(path, matrix.values),
    shows="napari_gpubio.tractograms.napari_io:layers_of_matrix",
)


@dataclass(frozen=True, eq=False)
class ConnectomeWithMatrix(MadeOf, main="connectome"):
    """What the verbs of connectomes make; the matrix is made when it is looked at."""

    connectome: Connectome
    settings: MatrixSettings
    weights: Any = None

    @functools.cached_property
    def matrix(self) -> Matrix:
        """The matrix that was asked for."""
        return self.settings.matrix(self.connectome, self.weights)


def connectome_summary(made: ConnectomeWithMatrix) -> Summary:
    """How many fibers connect regions, and the matrix."""
    found, fibers = made.connectome, len(made.connectome.numbers[LENGTH])
    numbers = {"connections": found.assigned, "fibers": fibers, "labels": found.labels, "regions": found.names}
    numbers |= {"of": made.settings.of, "matrix": made.matrix.values}
    return Summary((f"{found.assigned:,} connections of {fibers:,} fibers, {len(found)} regions",), numbers)


@dataclass(frozen=True, kw_only=True)
class MakeConnectome(Operation, verb="connectome", makes={"matrix": Matrix, "connectome": Connectome}):
    """Count the fibers between the regions of an atlas, with the conventions of MRtrix.

    With --connectome-out what is done is kept every 8 s, and at Ctrl-C: the same command goes on where it was. A
    tractogram may be larger than memory (tck, uncompressed trx).
    """

    examples = (
        "connectome brain.trx --atlas aparc+aseg.nii.gz --out counts.csv",
        "connectome brain.tck --atlas aparc+aseg.nii.gz --of length_mm --out lengths.csv --connectome-out brain.npz",
    )
    needs_no_file = True
    continues = "connectome"
    keeps_parts = "a matrix of a part of the fibers would be taken for that of all"

    fibers: Ref[Fibers] = given("Fibers", "Tractogram: trk, tck, trx, vtk, tt.gz.")
    atlas: Ref[Atlas] = given("Atlas", "Label volume, with a table of names beside it.")
    weights: File | None = part("Weights", "Text file with a weight for each fiber; SIFT2 writes it.", default=None)
    settings: ConnectomeSettings = part("Assignment", "Which regions a fiber connects.", default=ConnectomeSettings())
    matrix: MatrixSettings = part("Matrix", "What is put together.", default=MatrixSettings())

    def check(self) -> None:
        """Raise InvalidInput if weights would have no effect."""
        if self.weights is not None and self.matrix.statistic in ("min", "max"):
            raise InvalidInput(f"weights have no effect on the {self.matrix.statistic} of an edge; leave them out")

    def steps(
        self,
        data: Any,
        *,
        device: Any,  # noqa: ARG002 - it runs on the CPU
        stop: Any,
        known: Any = None,
    ) -> Generator[Step, None, ConnectomeWithMatrix]:
        """Find which regions each fiber connects."""
        weights = None if data.weights is None else existing_numbers(data.weights, MAX_WHOLE).ravel()
        steps = connectome_steps(source_of(data.fibers), data.atlas, self.settings, known=known, stop=stop)
        return ConnectomeWithMatrix((yield from steps), self.matrix, weights)

    def summary(self, made: ConnectomeWithMatrix) -> Summary:
        """How many fibers connect regions, and the matrix."""
        return connectome_summary(made)
