"""What the chosen method of tracking is for, and one click from one direction a voxel to fibers in FODs."""

from collections.abc import Callable
from typing import Any

from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.settings import kind_of
from napari_gpubio.diffusion.fods.estimate import supported_shell
from napari_gpubio.diffusion.fods.napari_io import fods_of
from napari_gpubio.diffusion.gui.fods.making import USUAL, Deconvolution
from napari_gpubio.diffusion.gui.records import fods_on, scan_behind
from napari_gpubio.diffusion.gui.source import source_of
from napari_gpubio.diffusion.napari_io import scan_of
from napari_gpubio.fibers.settings import TrackMethod
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.forms import fill_column, muted_label, text_button
from napari_gpubio.gui.layers import LayerBox, LayerListener

_OTHER_SCAN = "FODs are made of a scan; that of these tensors is not open."


class FodOffer(QWidget, Follower):
    """A line about the method, and a button to FODs of the scan that is tracked in, or the sentence why there is none.

    Parameters
    ----------
    viewer
        The napari viewer.
    source_box
        What is tracked in.
    act
        Called when the button is pressed.
    parent
        Qt parent.

    ``button`` stands beside ``source_box``.
    """

    def __init__(self, viewer: Any, source_box: LayerBox, act: Callable[[], object], parent: QWidget) -> None:
        super().__init__(parent)
        self._viewer, self._source_box, self._use = viewer, source_box, ""
        self.layer: Any | None = None
        self.deconvolution: Deconvolution | None = None
        self._label, self.button = muted_label(self), text_button("", "", self, act)
        fill_column(self, self._label)
        self._layers = LayerListener(viewer, _counts, layers_changed=self.refresh)
        self.followers = (self._layers,)
        source_box.currentIndexChanged.connect(self.refresh)

    @property
    def text(self) -> str:
        """What is said."""
        return str(self._label.text())

    def show_use(self, method: TrackMethod) -> None:
        """Say what a method is for."""
        self._use = f"{kind_of(method)}: {method.use}"
        self.refresh()

    def refresh(self, *_: Any) -> None:
        """Offer the FODs that are open on the grid of the tensors or the scan, or to make them, or say why not."""
        chosen, why = self._source_box.layer, ""
        source = source_of(chosen)
        self.layer, self.deconvolution = None, None
        if source is not None:
            self.layer = fods_on(self._viewer.layers, source)
        if source is not None and self.layer is None:
            try:
                self.deconvolution = self._of(chosen)
            except InvalidInput as error:
                why = str(error)
        self._label.setText("\n".join(text for text in (self._use, why) if text))
        self.button.setVisible(self.layer is not None or self.deconvolution is not None)
        if self.layer is not None:
            self.button.setText("Track in FODs")
            self.button.setToolTip(f"Choose {self.layer.name!r}, which has several directions a voxel")
        elif self.deconvolution is not None:
            self.button.setText("Make FODs")
            self.button.setToolTip(
                "Deconvolve FODs, which have several directions a voxel, from the scan, and choose them to track in"
            )

    def _of(self, chosen: Any) -> Deconvolution:
        scan = scan_behind(self._viewer.layers, chosen)
        if scan is None:
            raise InvalidInput(_OTHER_SCAN)
        shell = supported_shell(scan)
        largest = shell == max(scan.shells())
        settings = USUAL if largest else type(USUAL)(lmax=USUAL.lmax, shell=shell)
        return Deconvolution(scan=scan, study=str(carried(chosen, "study") or chosen.name), settings=settings)


def _counts(layer: Any) -> bool:
    return fods_of(layer) is not None or scan_of(layer) is not None
