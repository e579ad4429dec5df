"""A run of the flow panel: its inputs, read in the GUI thread, and what a worker makes of them."""

import dataclasses
import threading
from collections.abc import Generator

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.gui.records import output_of, remember
from napari_gpubio.diffusion.operations import FindPeaks
from napari_gpubio.diffusion.operations.deconvolution import Peaks
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.fibers.flow.run import PEAKS, fixels_of
from napari_gpubio.fibers.flow.settings import FlowSettings
from napari_gpubio.fibers.flow.source import SourceFlow, Targets, move_from, targets_steps
from napari_gpubio.fibers.operations import FlowFromSource
from napari_gpubio.tractograms.gui.region_box import AtlasSource, ChosenRegion


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Ground:
    """What mass flows on, and to what; with it, the mass of a source is moved in a moment.

    Parameters
    ----------
    field
        FODs, whose peaks are the fixels, or these themselves.
    atlas
        The regions that sources are compared by, or None.
    settings
        How mass moves.
    device
        By its name.
    """

    field: FodField | FixelField
    atlas: AtlasSource | None
    settings: FlowSettings
    device: str

    def fixels_output(self) -> Output[FixelField]:
        """Return what makes the fixels, in a worker."""
        if isinstance(self.field, FixelField):
            return output_of(self.field)
        return FindPeaks(fods=output_of(self.field), settings=PEAKS).output()

    def operation(self, source: ChosenRegion) -> FlowFromSource:
        """Return the operation of a source; files are looked through, which a worker does."""
        atlas = None if self.atlas is None else self.atlas.output()
        return FlowFromSource(fixels=self.fixels_output(), source=source.output(), atlas=atlas, settings=self.settings)

    def steps(self, stop: threading.Event) -> "Generator[Step, None, Prepared]":
        """Find the fixels, and let mass flow from all regions of the atlas."""
        device = choose_device(self.device)
        yield Step(0, 1, "finding fixels")
        fixels, output = fixels_of(self.field, device), self.fixels_output()
        if fixels is not self.field:
            remember(output, Peaks(fixels), self.device)
        targets, atlas = None, None
        if self.atlas is not None:
            targets = yield from targets_steps(fixels, self.atlas.atlas, self.settings, device, stop)
            atlas = self.atlas.output()
        return Prepared(ground=self, fixels=fixels, targets=targets, device=device, outputs=(output, atlas))


@dataclasses.dataclass(frozen=True, eq=False)
class Moved:
    """The flow of a source, and the operation that makes it."""

    flow: SourceFlow
    operation: FlowFromSource


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Ground that mass can flow on at once.

    ``outputs``: what makes the fixels, and the atlas.
    """

    ground: Ground
    fixels: FixelField
    targets: Targets | None
    device: Device
    outputs: tuple[Output[FixelField], Output[Atlas] | None]

    @property
    def complete(self) -> bool:
        """Whether the flows of all regions are known."""
        return self.targets is None or (self.targets.flow is not None and self.targets.flow.complete)

    def moved(self, source: ChosenRegion) -> Moved:
        """Move the mass of a source."""
        settings, targets = self.ground.settings, self.targets
        if targets is not None and not self.complete:
            targets = dataclasses.replace(targets, flow=None)
        flow = move_from(self.fixels, source.region, targets, settings, self.device.each[0])
        fixels, atlas = self.outputs
        return Moved(flow, FlowFromSource(fixels=fixels, source=source.output(), atlas=atlas, settings=settings))


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """Result of a run or a move: the flow of the source, and that of the one that it is compared with, if any."""

    prepared: Prepared
    source: ChosenRegion
    moved: Moved
    compared: Moved | None = None


def found_steps(
    ground: Ground | Prepared, source: ChosenRegion, compared: ChosenRegion | None, stop: threading.Event
) -> Generator[Step, None, Found]:
    """Prepare the ground, unless that has been done, and move the mass of the source, and of the one beside it."""
    prepared = ground if isinstance(ground, Prepared) else (yield from ground.steps(stop))
    yield Step(0, 1, "moving mass")
    return Found(prepared, source, prepared.moved(source), None if compared is None else prepared.moved(compared))
