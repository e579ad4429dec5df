"""The dock widget "Denoise": choose a volume, see its slice denoised at once, run, compare before and after."""

import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from qtpy.QtGui import QKeySequence, QShortcut
from qtpy.QtWidgets import QCheckBox

from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.denoise.gui.inputs import ImageBox, add_row
from napari_gpubio.denoise.gui.modes import MODES, DenoiseMode, FluenceMode
from napari_gpubio.denoise.gui.preview import LivePreview
from napari_gpubio.denoise.gui.results import AFTER, BEFORE, KEY_TEXT, DenoisedBox, ResultLayers, texts_of
from napari_gpubio.denoise.gui.run import Denoised, Draft, run_steps
from napari_gpubio.denoise.napari_io import key_of
from napari_gpubio.denoise.operations import Denoise
from napari_gpubio.gui.connections import Connection, connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import RowLabel, aligned_form, notes_text, row_label, row_of, text_button
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.run_parts import Pieces

if TYPE_CHECKING:
    import napari.viewer


class DenoisePanel(EnginePanel):
    """Denoise an image layer.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    warms = ("denoise",)
    kept = ("_done", "_shown_source")

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer)
        self.image_box = ImageBox(viewer, self)
        self.modes = [mode(viewer, self) for mode in MODES]
        self.mode_box = ElidedComboBox(self)
        self.result_box = DenoisedBox(self)
        self.results = self.own(ResultLayers(viewer))
        self.preview = LivePreview(viewer, self._draft, self.must_warm_up, self)
        self._done: Denoised | None = None  # that is shown, of the image that is chosen
        self.preview_button = text_button(
            "Preview this slice", f"Denoise the slice on screen; {KEY_TEXT} hides and shows the preview", self
        )
        self.live_box = QCheckBox("live", self, toolTip="The preview follows the slider and every setting")
        self._fill()
        connect_all(self._connections())
        for part in (*(part for mode in self.modes for part in mode.parts), *self.image_box.parts, self.preview):
            self.own(part)

    @property
    def mode(self) -> DenoiseMode:
        """The chosen mode."""
        return self.modes[self.mode_box.currentIndex()]

    # -- the inside of the panel ----------------------------------------------------------------------------------

    def _fill(self) -> None:
        for mode in self.modes:
            self.mode_box.addItem(mode.title)
            self.mode_box.setItemData(self.mode_box.count() - 1, mode.tip)
        row = aligned_form(None)
        row.addRow(row_label("Mode", "Denoising method", self), self.mode_box)
        add_row(self.header, Denoise, "image", self.image_box.layer_box)
        self.inputs.addWidget(self.image_box)
        self.inputs.addLayout(row)
        for mode in self.modes:
            mode.setVisible(mode is self.mode)
            self.inputs.addWidget(mode)
        self.inputs.addLayout(row_of(self.preview_button, self.live_box))
        self.inputs.addWidget(self.result_box)
        self.result_head.addWidget(self.result_box.head)

    def showEvent(self, event: Any) -> None:
        """Qt: the panel comes on screen; make the labels of all rows as wide as the widest, now that this is known."""
        labels = self.findChildren(RowLabel)
        widest = max(label.sizeHint().width() for label in labels)
        for label in labels:
            label.least_width = widest
            label.updateGeometry()
        super().showEvent(event)

    def _connections(self) -> list[Connection]:
        """All signals of the parts, and what they call."""
        before_after = QShortcut(QKeySequence(KEY_TEXT), self)
        return [
            (self.mode_box.currentIndexChanged, self._on_mode),
            (self.image_box.changed, self._on_change),
            *((mode.changed, self._on_change) for mode in self.modes),
            (self.image_box.layer_box.currentIndexChanged, self._on_image),
            (self.preview_button.clicked, self._on_preview),
            (self.live_box.toggled, self._on_live),
            (self.warmed, self.preview.resume),
            (self.preview.status_changed, self.show_status),
            (self.preview.error_occurred, self.show_error),
            (self.preview.shown, self.clear_message),
            (self.result_box.part_chosen, self.show_only),
            (self.result_box.keep_requested, self._on_keep),
            (before_after.activated, self.toggle_before_after),
        ]

    def _on_mode(self, *_: Any) -> None:
        for mode in self.modes:
            mode.setVisible(mode is self.mode)
        self._on_change()

    def _on_image(self, *_: Any) -> None:
        """Let modes choose what belongs to another image; show the numbers of a result while its image is chosen."""
        layer = self.image_box.layer
        if layer is None:
            self.preview.remove()
        for number, mode in enumerate(self.modes):
            mode.set_image(layer)
            if isinstance(mode, FluenceMode) and mode.has_own_halves and not self.running:
                self.mode_box.setCurrentIndex(number)
        is_shown = layer is not None and key_of(layer) == self.results.source
        self.result_box.setVisible(is_shown)
        self._done = self._done if is_shown else None

    def _on_change(self) -> None:
        if self.image_box.layer is not None and not self.running:
            self.preview.request_update()

    def on_front(self) -> None:
        """Let the preview catch up with the slice on screen."""
        super().on_front()
        self.preview.request_update()

    def _on_preview(self, *_: Any) -> None:
        if not self.running:
            self.image_box.layer_box.settle()
            self.preview.start()

    def _on_live(self, live: bool) -> None:
        self.preview.live = live
        if live:
            self._on_preview()
        else:
            self.preview.remove()

    # -- running --------------------------------------------------------------------------------------------------

    def _draft(self) -> Draft:
        """Take down everything that a run needs, in the GUI thread."""
        image, chosen = self.image_box.read_image(), self.image_box.volumes
        fields, sources = self.mode.read(image)
        fields |= {
            "volumes": None if chosen is None else (chosen.start, chosen.stop - 1),
            "log10": self.image_box.log.isChecked(),
            "skip_gaps": self.image_box.gaps.isChecked(),
        }
        sources |= self.image_box.sources(image)
        return Draft(image=image, verb=self.mode.verb, fields=fields, sources=sources, device=self.device)

    def needs(self) -> tuple[str, ...]:
        """What the chosen mode needs compiled."""
        return self.mode.warms

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Denoised]:
        """Read the inputs and return the run."""
        steps = run_steps(self._draft(), stop)
        self.preview.cancel()
        return steps

    def show_result(self, result: Denoised) -> Pieces:
        """Show the layers of a result, its numbers and notes."""
        self.preview.remove()
        self.live_box.setChecked(False)
        self._done = result
        yield from self.results.show_result(result)
        self.result_box.show_result(result)
        self.show_only(AFTER)
        if not result.made.result.complete:
            self.show_status(texts_of(result).stopped)
        if result.made.result.notes:
            self.show_note(notes_text(result.made.result.notes))

    @property
    def _shown_source(self) -> str:
        return self.results.source

    @_shown_source.setter
    def _shown_source(self, source: str) -> None:
        self.results.source = source

    def show_kept(self) -> None:
        """Show numbers that undo has brought back, or none."""
        if self._done is None:
            self.result_box.hide()
        else:
            self.result_box.show_result(self._done)

    def show_only(self, part: str) -> None:
        """Show the image before (``before``), ``after``, the ``residual`` or the ``noise``, and hide the others."""
        self.results.show_only(part)
        self.result_box.mark_part(part)

    def toggle_before_after(self) -> None:
        """Go from before to after, or from anything else to before; of a preview too."""
        preview = self.preview.layer
        if preview is not None:
            preview.visible = not preview.visible
        elif self.results.has_result():
            self.show_only(AFTER if self.results.visible_part() == BEFORE else BEFORE)

    def _on_keep(self) -> None:
        self._done = None
        name = self.results.keep()
        self.result_box.hide()
        self.show_status(f"{name} is kept" if name else "")

    # -- the script -----------------------------------------------------------------------------------------------

    def operation(self) -> Operation:
        """Return the operation of the result that is shown, or of a run with the inputs as they stand."""
        return self._draft().operation() if self._done is None else self._done.operation

    def take_draft(self) -> Callable[[], Operation]:
        """Read the inputs, and return what makes an operation of them."""
        return self._draft().operation

    def show_draft(self, operation: Operation) -> bool:
        """Show an operation of one of the modes; returns whether layers show all its inputs."""
        for number, mode in enumerate(self.modes):
            if isinstance(operation, mode.verb):
                self.mode_box.setCurrentIndex(number)
                return self.image_box.show_draft(operation) and mode.show_draft(operation)
        return False

    @property
    def is_at_hand(self) -> bool:
        """Whether a result is shown, whose operation is known."""
        return self._done is not None

    def script_files(self) -> dict[str, str]:
        """Files that a script writes."""
        name = file_name(self._draft().image.name if self._done is None else self._done.draft.image.name)
        return {"denoised": f"denoised {name}.nii.gz", "noise": f"noise of {name}.nii.gz"}
