"""How sure the ranks of a source are: the scan whose noise is drawn again, and how often."""

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from qtpy.QtWidgets import QFormLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.gui.source import HINT, scan_in, why_no_scan
from napari_gpubio.fibers.flow.repeats import flow_repeats_steps, with_source
from napari_gpubio.fibers.flow.repeats_model import FlowRepeats, RankedTarget
from napari_gpubio.fibers.gui.flow.inputs import Found
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.forms import ParamForm, fill_column, text_button
from napari_gpubio.gui.layers import LayerBox


@dataclass(frozen=True, kw_only=True)
class _Repeats(Settings):
    repeats: int = param(
        50, "Repeats", "Each takes about as long as deconvolution.", minimum=2, maximum=10_000, step=10
    )
    random_seed: int = param(0, "Random seed", "The same seed gives the same repeats.", minimum=0, maximum=2**31 - 1)


@dataclass(frozen=True, eq=False)
class Sure:
    """Repeats of the flow of a source, and its label in them."""

    found: Found
    repeats: FlowRepeats
    label: int

    @property
    def ranked(self) -> list[RankedTarget]:
        """The targets of the source."""
        return self.repeats.ranked(self.label)

    @property
    def message(self) -> str:
        """How many regions stay among the first three, in a sentence."""
        sure = [one.name for one in self.ranked if one.among_first >= 0.95]
        named = f"{', '.join(sure)} {'stay' if len(sure) > 1 else 'stays'}" if sure else "No region stays"
        return f"{named} among the first three in 95 % or more of {self.repeats.repeats:,} repeats."


class SureBox(QWidget, Follower):
    """Chooses a scan and a number of repeats; ``begin`` is called when the button is pressed."""

    def __init__(self, viewer: Any, begin: Callable[[], object], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scan_box = LayerBox(viewer, why_no_scan, empty=HINT, parent=self)
        self.form = ParamForm(_Repeats(), parent=self)
        self.followers = (self.scan_box,)
        top = QFormLayout()
        top.addRow("Scan", self.scan_box)
        tip = (
            "Signals are drawn again from the residuals of a fit, deconvolved, and mass flows again: intervals of the "
            "ranks of this source. Bundles that touch look like bundles that cross in all repeats."
        )
        fill_column(self, top, self.form, text_button("How sure…", tip, self, begin))

    def steps_of(self, found: Found | None) -> Callable[[threading.Event], Generator[Step, None, Sure]]:
        """Read the inputs, and return what makes steps of the repeats of a source; InvalidInput if one is missing."""
        if found is None or (atlas := found.prepared.inputs.atlas) is None:
            raise InvalidInput("there is no source with ranked regions yet; choose an atlas above, and place a source")
        fods, inputs = found.prepared.inputs.field, found.prepared.inputs
        if not isinstance(fods, FodField):
            raise InvalidInput("fixels cannot be drawn again; choose FODs above that were deconvolved here")
        scan, settings = scan_in(self.scan_box.layer), self.form.value()
        with_it, label = with_source(atlas.atlas, found.source.region)
        how: dict[str, Any] = {"repeats": settings.repeats, "random_seed": settings.random_seed, **inputs.walls}

        def steps(stop: threading.Event) -> Generator[Step, None, Sure]:
            repeats = yield from flow_repeats_steps(
                scan, fods, with_it, inputs.settings, **how, device=inputs.device, stop=stop
            )
            return Sure(found, repeats, label)

        return steps
