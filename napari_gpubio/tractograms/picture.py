"""A picture of fibers without a display: three views side by side, drawn in software."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.pictures import joined
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.tractograms.model import Tractogram

if TYPE_CHECKING:
    from PIL import Image

Array = npt.NDArray[Any]
# Name, world axis across the picture, world axis up, world axis toward the eye (all as axis index and sign), labels.
VIEWS = (
    ("coronal, from behind", (0, 1), (2, 1), (1, -1), ("L", "R")),
    ("sagittal, from the right", (1, 1), (2, 1), (0, 1), ("P", "A")),
    ("axial, from above", (0, 1), (1, 1), (2, 1), ("L", "R")),
)
SMOOTH = 2  # drawn so many times larger, then scaled down


def fiber_picture(
    field: TensorField, fibers: Tractogram, *, center_mm: npt.ArrayLike | None = None, pixels_per_mm: float = 3.5
) -> npt.NDArray[np.uint8]:
    """Draw fibers, colored by direction, over slices of FA.

    Parameters
    ----------
    field
        The tensors.
    fibers
        What to draw.
    center_mm
        World point that the slices go through; by default the middle of the fibers.
    pixels_per_mm
        Scale.

    Returns
    -------
    ndarray
        Picture of shape (height, width, 3), uint8.

    Examples
    --------
    >>> from napari_gpubio import diffusion, fibers, tractograms
    >>> field = diffusion.phantom.ring_field()
    >>> fibers = fibers.track(field, [(20.0, 0.0, 0.0)], device="cpu")
    >>> tractograms.picture.save_picture("fibers.png", tractograms.picture.fiber_picture(field, fibers))
    """
    from PIL import Image

    low, high = _box(field)
    if center_mm is None:
        center_mm = fibers.points.mean(axis=0) if len(fibers.points) else (low + high) / 2
    fa = fa_map(field)
    center = np.asarray(center_mm, float)
    panels = [_panel(field, fa, fibers, view, (low, high), center, SMOOTH * pixels_per_mm) for view in VIEWS]
    sheet = Image.fromarray(joined(panels, gap=0))
    return np.asarray(sheet.resize((sheet.width // SMOOTH, sheet.height // SMOOTH), Image.Resampling.LANCZOS))


def save_picture(path: Any, picture: Array) -> None:
    """Write a picture as PNG."""
    from PIL import Image

    Image.fromarray(picture).save(path, format="PNG")


def _box(field: TensorField) -> tuple[Array, Array]:
    """Bounding box of the mask in world mm, with a margin."""
    corners = apply_affine(field.affine, np.argwhere(field.mask))
    return corners.min(axis=0) - 6, corners.max(axis=0) + 6


def _panel(
    field: TensorField, fa: Array, fibers: Tractogram, view: Any, box: tuple[Array, Array], center: Array, scale: float
) -> "Image.Image":
    from PIL import Image, ImageDraw, ImageFont

    name, (across, _), (up, _), (depth, toward), labels = view
    low, high = box
    width, height = (int((high[a] - low[a]) * scale) for a in (across, up))
    panel = Image.fromarray(_slice(field, fa, (across, up, depth), low, center, (width, height), scale)).convert("RGB")
    draw = ImageDraw.Draw(panel)
    x = (fibers.points[:, across] - low[across]) * scale
    y = height - (fibers.points[:, up] - low[up]) * scale
    colors = _direction_colors(fibers)
    for f in _far_first(fibers, depth, toward):
        for n in range(fibers.offsets[f], fibers.offsets[f + 1] - 1):
            draw.line((x[n], y[n], x[n + 1], y[n + 1]), fill=tuple(colors[n]), width=SMOOTH)
    font = ImageFont.load_default(6 * scale)
    draw.text((4 * scale, height / 2), labels[0], font=font, fill="white", anchor="lm")
    draw.text((width - 4 * scale, height / 2), labels[1], font=font, fill="white", anchor="rm")
    draw.text(
        (width / 2, height - 2 * scale), name, font=ImageFont.load_default(5 * scale), fill="#b0b0b0", anchor="mb"
    )
    return panel


def _far_first(fibers: Tractogram, depth: int, toward: int) -> Array:
    """Order of the fibers in which nearer ones are drawn over farther ones."""
    if not len(fibers):
        return np.empty(0, np.int64)
    middle = np.add.reduceat(fibers.points[:, depth], fibers.offsets[:-1]) / fibers.counts
    return np.argsort(toward * middle)


def _slice(
    field: TensorField,
    fa: Array,
    axes: tuple[int, int, int],
    low: Array,
    center: Array,
    size: tuple[int, int],
    scale: float,
) -> npt.NDArray[np.uint8]:
    """FA in a plane of world axes through the center, as a gray picture with the second axis up."""
    from scipy.ndimage import map_coordinates

    across, up, depth = axes
    columns, rows = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    world = np.empty((*columns.shape, 3))
    world[..., across] = low[across] + columns / scale
    world[..., up] = low[up] + (size[1] - 1 - rows) / scale
    world[..., depth] = center[depth]
    voxels = apply_affine(np.linalg.inv(field.affine), world)
    values = map_coordinates(fa, np.moveaxis(voxels, -1, 0), order=1, cval=0.0)
    return (170 * values.clip(0, 1)).astype(np.uint8)


def _direction_colors(fibers: Tractogram) -> npt.NDArray[np.uint8]:
    """Red, green, blue for left-right, front-back, up-down of the piece that begins at each point."""
    pieces = np.zeros_like(fibers.points)
    if len(fibers.points) > 1:
        pieces[:-1] = np.abs(np.diff(fibers.points, axis=0))
    length = np.linalg.norm(pieces, axis=1, keepdims=True)
    return np.asarray(40 + 215 * pieces / np.maximum(length, 1e-9)).astype(np.uint8)
