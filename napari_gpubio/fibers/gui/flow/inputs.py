"""A run of the flow panel: its inputs, read in the GUI thread, and what a worker makes of them."""

import dataclasses
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.napari_io import fixels_of as fixels_in
from napari_gpubio.diffusion.fods.napari_io import fods_of
from napari_gpubio.diffusion.gui.records import output_of, remember
from napari_gpubio.diffusion.gui.source import why_no_fods, why_no_source
from napari_gpubio.diffusion.operations import FindPeaks
from napari_gpubio.diffusion.operations.deconvolution import Peaks
from napari_gpubio.diffusion.regions import AnyRegion
from napari_gpubio.fibers.flow.run import PEAKS, fixels_of
from napari_gpubio.fibers.flow.settings import FlowSettings
from napari_gpubio.fibers.flow.source import Ground, SourceFlow, ground_steps, move_from
from napari_gpubio.fibers.operations import FlowFromSource
from napari_gpubio.tractograms.gui.region_box import AtlasSource, ChosenRegion

HINT = "deconvolve a scan, or open FODs or peaks"
NO_FIELD = (
    "there are no FODs or fixels; deconvolve a scan in the Fiber orientations panel, or open those of another program"
)
FEW = "one direction a voxel; make FODs"


def field_in(layer: Any) -> FodField | FixelField | None:
    """Return what mass can flow in of a layer: FODs or fixels, or None."""
    return fods_of(layer) or fixels_in(layer)


def why_no_flow(layer: Any) -> str | None:
    """Why mass cannot flow in a layer: in FODs and fixels it can."""
    if field_in(layer) is not None:
        return None
    return FEW if why_no_source(layer) is None else why_no_fods(layer)


def fixels_output(field: FodField | FixelField) -> Output[FixelField]:
    """Return what makes the fixels that mass flows on, in a worker: of FODs, their peaks."""
    if isinstance(field, FixelField):
        return output_of(field)
    return FindPeaks(fods=output_of(field), settings=PEAKS).output()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """What mass flows on, and to what, as it was when it was read.

    Parameters
    ----------
    field
        FODs, whose peaks are the fixels, or these themselves.
    atlas
        The regions that sources are compared by, or None.
    settings
        How mass moves.
    gates
        Regions that fibers pass (``include``), and those that they do not enter (``exclude``).
    device
        By its name.
    """

    field: FodField | FixelField
    atlas: AtlasSource | None
    settings: FlowSettings
    gates: Mapping[str, Sequence[ChosenRegion]]
    device: str

    @property
    def walls(self) -> dict[str, list[AnyRegion]]:
        """The regions of ``gates``, as the engine takes them."""
        return {role: [one.region for one in regions] for role, regions in self.gates.items()}

    def sources(self) -> dict[str, Any]:
        """Return what makes the inputs of operations, but for the source; files are looked through in a worker."""
        gates = {role: tuple(one.output() for one in regions) for role, regions in self.gates.items()}
        atlas = None if self.atlas is None else self.atlas.output()
        return {"fixels": fixels_output(self.field), "atlas": atlas, **gates}

    def operation(self, source: ChosenRegion) -> FlowFromSource:
        """Return the operation of a source, in a worker."""
        return FlowFromSource(source=source.output(), settings=self.settings, **self.sources())

    def steps(self, stop: threading.Event) -> Generator[Step, None, "Prepared"]:
        """Find the fixels, and let mass flow from all regions of the atlas."""
        device = choose_device(self.device)
        yield Step(0, 1, "finding fixels")
        fixels, output = fixels_of(self.field, device), fixels_output(self.field)
        if fixels is not self.field:
            remember(output, Peaks(fixels), self.device)
        atlas = None if self.atlas is None else self.atlas.atlas
        ground = yield from ground_steps(fixels, atlas, self.settings, device, stop, **self.walls)
        return Prepared(inputs=self, ground=ground, sources=self.sources())


@dataclasses.dataclass(frozen=True, eq=False)
class Moved:
    """The flow of a source, and the operation that makes it."""

    flow: SourceFlow
    operation: FlowFromSource


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Ground on which the mass of a source is moved in a moment.

    ``sources``: what makes the inputs of operations.
    """

    inputs: Inputs
    ground: Ground
    sources: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """Whether the flows of all regions are known."""
        return self.ground.placed is None or self.ground.flow is not None

    def moved(self, source: ChosenRegion) -> Moved:
        """Move the mass of a source."""
        flow = move_from(self.ground, source.region)
        return Moved(flow, FlowFromSource(source=source.output(), settings=self.ground.settings, **self.sources))


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """Result of a run or a move: the flow of the source, and that of the one that it is compared with, if any."""

    prepared: Prepared
    source: ChosenRegion
    moved: Moved
    compared: Moved | None = None


def found_steps(
    inputs: Inputs | Prepared, source: ChosenRegion, compared: ChosenRegion | None, stop: threading.Event
) -> Generator[Step, None, Found]:
    """Prepare the ground, unless that has been done, and move the mass of the source, and of the one beside it."""
    prepared = inputs if isinstance(inputs, Prepared) else (yield from inputs.steps(stop))
    yield Step(0, 1, "moving mass")
    return Found(prepared, source, prepared.moved(source), None if compared is None else prepared.moved(compared))
