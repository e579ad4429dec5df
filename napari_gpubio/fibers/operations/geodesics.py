"""Connectomes of geodesics: a verb."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.fibers.directions import Directions, Usual
from napari_gpubio.fibers.geodesics import TRACKING, GeodesicSettings, geodesic_connectome_steps
from napari_gpubio.fibers.operations.routes import FODS_HELP
from napari_gpubio.fibers.settings import InTensors
from napari_gpubio.tractograms.connectome.model import Connectome
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.connectome import (
    ConnectomeWithMatrix,
    Matrix,
    MatrixSettings,
    connectome_summary,
)


@dataclass(frozen=True, eq=False)
class Geodesics(ConnectomeWithMatrix):
    """What `ShootGeodesics` makes."""

    @property
    def best(self) -> Tractogram:
        """The best fibers of each pair; InvalidInput if there are none."""
        if self.connectome.best is None:
            raise InvalidInput("no region has fibers, so there are no best ones; check the atlas and the tensors")
        return self.connectome.best


@dataclass(frozen=True, kw_only=True)
class ShootGeodesics(
    Operation, verb="geodesics", makes={"matrix": Matrix, "connectome": Connectome, "best": Tractogram}
):
    """Shoot geodesics from each region of an atlas, and write a matrix of those that end in another.

    Tensors have one direction a voxel. Which regions are joined through crossings: flow.
    """

    examples = (
        "geodesics dwi.nii.gz --atlas aparc+aseg.nii.gz --of alignment_fa --statistic max --out s.csv --best-out b.trx",
    )
    needs_no_file = True

    tensors: Ref[TensorField] = given("Tensors", "Diffusion scan, or tensor image.")
    atlas: Ref[Atlas] = given("Atlas", "Label volume, with a table of names beside it.")
    fods: Ref[FodField] | None = given("FODs", FODS_HELP, optional=True)
    settings: GeodesicSettings = part("Geodesics", "Seeds, and how many are kept.", default=GeodesicSettings())
    directions: Directions = part("Directions", "The fan at each seed.", default=Usual())
    method: InTensors = part("Method", "How fibers are traced.", default=TRACKING)
    matrix: MatrixSettings = part("Matrix", "What is put together.", default=MatrixSettings())

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, Geodesics]:
        """Shoot them."""
        how = self.settings, self.directions, self.method
        found = yield from geodesic_connectome_steps(data.tensors, data.atlas, *how, fods=data.fods, **run)
        return Geodesics(found, self.matrix)

    def summary(self, made: Geodesics) -> Summary:
        """How many fibers connect regions, and the matrix."""
        return connectome_summary(made)
