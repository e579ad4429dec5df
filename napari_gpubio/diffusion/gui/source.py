"""The scan or the tensors that a panel works on: those of a layer, or of its scan, which is fitted first."""

from typing import Any

import numpy as np
from napari.layers import Image, Labels
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import grid_of, volume_of
from napari_gpubio.core.space import same_grid
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.napari_io import fixels_of, fods_of
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.napari_io import field_of, scan_of
from napari_gpubio.gui.layers import VOLUME, LayerBox, LayerListener, why_not_array

NO_SCAN = "there is no diffusion scan; open a NIfTI file with its bval and bvec files beside it"
NO_TENSORS = "there are no tensors; open a diffusion scan, or File › Open Sample › napari-gpubio"
HINT = "open a diffusion scan, or File › Open Sample"
Source = DiffusionScan | TensorField
Field = TensorField | FodField | FixelField
FITTING = "diffusion/tensor fit", "diffusion/check of the gradient table"  # what is compiled to fit tensors
DECONVOLVING = (*FITTING, "diffusion/spherical deconvolution")  # and to make FODs
Trackable = DiffusionScan | Field


def source_of(layer: Any | None) -> Source | None:
    """Return a layer's tensors, or its diffusion scan, or None."""
    return None if layer is None else field_of(layer) or scan_of(layer)


def source_in(layer: Any | None) -> Source:
    """Return the tensors, or the diffusion scan, of a layer that was chosen; InvalidInput if there are none."""
    source = source_of(layer)
    if source is None:
        raise InvalidInput(NO_TENSORS)
    return source


def trackable_of(layer: Any | None) -> Trackable | None:
    """Return a layer's FODs, fixels, tensors, or diffusion scan, or None."""
    return None if layer is None else fods_of(layer) or fixels_of(layer) or source_of(layer)


def why_not_trackable(layer: Any) -> str | None:
    """Why fibers cannot be tracked in a layer: FODs and fixels can, and what `why_no_source` lets pass."""
    crosses = fods_of(layer) is not None or fixels_of(layer) is not None
    return None if crosses else why_no_source(layer)


def scan_in(layer: Any | None) -> DiffusionScan:
    """Return the diffusion scan of a layer that was chosen; InvalidInput if none is chosen."""
    scan = None if layer is None else scan_of(layer)
    if scan is None:
        raise InvalidInput(NO_SCAN)
    return scan


def mask_in(layer: Any | None, scan: DiffusionScan) -> Any | None:
    """Return the mask of a layer, shape of the scan; None if no layer is chosen, InvalidInput on another grid."""
    if layer is None:
        return None
    affine, shape = grid_of(layer)
    if not same_grid(shape, affine, scan.shape, scan.affine):
        raise InvalidInput(
            f"the mask {layer.name!r} (shape {shape}) is not on the grid of the scan (shape {scan.shape}); "
            "use a mask drawn on this scan's grid"
        )
    return np.nan_to_num(volume_of(layer)) != 0


def why_no_mask(layer: Any) -> str | None:
    """Why a layer cannot be a mask: labels and volumes can."""
    return why_not_array(layer, (Image, Labels), VOLUME if isinstance(layer, Labels) else (3,))


def is_map(layer: Any) -> bool:
    """Whether a layer is a map of tensors, as this package has made it."""
    return isinstance(layer, Image) and field_of(layer) is not None


class FodsBox(LayerBox):
    """Choose FODs that tell how much of a way crosses, or none.

    Until something has been run, those that are opened on the grid of the layer of ``source_box`` are suggested.
    """

    def __init__(self, viewer: Any, source_box: LayerBox, parent: QWidget | None = None) -> None:
        super().__init__(viewer, why_no_fods, nothing="none", parent=parent)
        self.setToolTip("FODs of the same scan; they tell how much of the way crosses other fibers")
        self._source_box = source_box
        self._opened = LayerListener(viewer, lambda layer: fods_of(layer) is not None, layers_added=self._suggest)
        self.followers = (*self.followers, self._opened)
        source_box.currentIndexChanged.connect(self._suggest)

    @property
    def fods(self) -> FodField | None:
        """The chosen FODs, or None."""
        return None if self.layer is None else fods_of(self.layer)

    def _suggest(self, *_: Any) -> None:
        source, fods = source_of(self._source_box.layer), self.fods
        if fods is not None and source is not None and not _share_grid(fods, source):
            self.unsettle()  # they are of another scan
            self.setCurrentIndex(0)
        for layer in self._opened.layers:
            fods = fods_of(layer)
            if source is not None and fods is not None and _share_grid(fods, source):
                self.suggest(layer)  # the topmost in the end


def _share_grid(fods: FodField, source: Source) -> bool:
    return same_grid(fods.shape, fods.affine, source.shape, source.affine)


def is_rgb(layer: Any) -> bool:
    """Whether a layer shows colors."""
    return bool(getattr(layer, "rgb", False))


def why_no_scan(layer: Any) -> str | None:
    """Why a layer is no diffusion scan."""
    if scan_of(layer) is not None:
        return None
    return "without b values" if isinstance(layer, Image) else ""


def why_no_fods(layer: Any) -> str | None:
    """Why a layer has no FODs."""
    if fods_of(layer) is not None:
        return None
    return "without FODs" if isinstance(layer, Image) else ""


def why_no_source(layer: Any) -> str | None:
    """Why a layer cannot be tracked in: a scan can, and a map of tensors that can be clicked in 3-D too."""
    if field_of(layer) is not None:
        return "colors; choose the FA" if is_rgb(layer) else None
    return why_no_scan(layer)
