"""FODs, their glyphs, and fixels as napari layers, without importing napari."""

from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import FOLLOWS, IN_MM, KEY, LayerData, carried_as, volume_layer
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import PART
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.core.space import slice_steps_mm
from napari_gpubio.diffusion.fods.glyphs import Mesh, SlicePlane, fod_glyphs, voxels_in_slice
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.response import TISSUE_NAMES

_COLORS = {"gm": "green", "csf": "red"}
_TOTAL = np.sqrt(4.0 * np.pi)  # times the first coefficient: the integral over the sphere


def fod_layer(fods: FodField, study: str, *, visible: bool = True) -> LayerData:
    """Return the layer of the integral of each FOD over the sphere; the FODs travel with it.

    Parameters
    ----------
    fods
        The distributions.
    study
        Beginning of the layer's name.
    visible
        Whether it is shown at once.
    """
    total = (fods.coefficients[..., 0] * _TOTAL).astype(np.float32)
    about = {"fods": fods, "study": study, **quantity_metadata(Quantity("fiber density", ""))}
    return _gray_layer(fods, total, f"{study} FOD", about, visible=visible)


def _gray_layer(field: FodField | FixelField, values: Any, name: str, about: dict[str, Any], **more: Any) -> LayerData:
    """The layer of values of a field, white where they are as high as in few voxels of its mask."""
    inside = values[field.mask]
    top = float(np.percentile(inside, 99.5)) if inside.size else 0.0
    return volume_layer(
        values,
        field.affine,
        name,
        contrast_limits=(0.0, top or 1.0),
        colormap="gray",
        metadata={"parameters": dict(field.parameters), **about},
        **more,
    )


def fod_layers(fods: FodField, study: str) -> list[LayerData]:
    """Return the layer of the FODs, and hidden ones of the other tissues' densities, which add their color to it.

    A density is the coefficient of order 0; the layers show it times ``sqrt(4 pi)``, which is 1 in a voxel full of the
    tissue: gray matter green and CSF red, as in MRtrix's pictures.
    """
    return [fod_layer(fods, study), *(_density_layer(fods, name, study) for name in fods.tissues)]


def _density_layer(fods: FodField, tissue: str, study: str) -> LayerData:
    name = TISSUE_NAMES.get(tissue, tissue)
    about = {PART: tissue, "study": study, "parameters": dict(fods.parameters)}
    return volume_layer(
        (fods.tissues[tissue] * _TOTAL).astype(np.float32),
        fods.affine,
        f"{study} {name}",
        contrast_limits=(0.0, 1.0),
        colormap=_COLORS.get(tissue, "gray"),
        blending="additive",
        metadata=about | quantity_metadata(Quantity(f"{name} density", "")),
        visible=False,
    )


def fixel_layer(fixels: FixelField, study: str) -> LayerData:
    """Return the layer of the largest amplitude of each voxel's fixels, which travel with it."""
    largest = fixels.dense(1)[1][..., 0] if fixels.counts.max(initial=0) else np.zeros(fixels.shape, np.float32)
    about = {"fixels": fixels, "study": study, **quantity_metadata(Quantity("largest amplitude", ""))}
    return _gray_layer(fixels, largest, f"{study} fixels", about)


def layers_of_fods(fods: FodField, output: Output[Any], name: str, part: Any = "") -> list[LayerData]:
    """Return a picture of FODs that are a result; see `Kind.shows`.

    Parameters
    ----------
    fods, output, name
        The FODs, what made them, and the name of the layer.
    part
        Another tissue, whose density is meant, or which glyphs: those of a slice across a world axis, with its position
        (mm), their size (voxels), whether all have it, and whether they are flat:
        ``("glyphs", axis, position_mm, size, same, flat)``.
    """
    if isinstance(part, tuple):
        layer = glyphs_of(fods, part)
    else:
        layer = _density_layer(fods, part, name) if part else fod_layer(fods, name)
    layer[1]["metadata"][KEY][RECORD] = record_of_output(output)
    return [(layer[0], {**layer[1], "visible": True}, layer[2])]


def layers_of_fixels(fixels: FixelField, output: Output[Any], name: str) -> list[LayerData]:
    """Return the layer of fixels that are a result; see `Kind.shows`."""
    layer = fixel_layer(fixels, name)
    layer[1]["metadata"][KEY][RECORD] = record_of_output(output)
    return [layer]


def glyphs_of(fods: FodField, part: tuple[Any, ...]) -> LayerData:
    """Return the layer of the glyphs of a slice, as `layers_of_fods` names them; InvalidInput if no FOD is there."""
    match part:
        case (_, 0 | 1 | 2 as axis, float(position), float(size), bool(same), bool(flat)) if size > 0:
            plane = SlicePlane(axis=axis, position_mm=position)
        case _:
            raise InvalidInput(f"the glyphs are {str(part)[:60]}, which are none; save them again")
    voxels, step = voxels_in_slice(fods, plane)
    mesh = fod_glyphs(fods, voxels, plane=plane if flat else None, size=size * step, same=same)
    return glyph_layer(fods, mesh, part)


def glyph_layer(fods: FodField, mesh: Mesh, part: tuple[Any, ...]) -> LayerData:
    """Return the surface layer of glyphs that `fod_glyphs` made; ``part``: which, as of `layers_of_fods`."""
    data, colors = glyph_data(fods, mesh)
    keywords = {
        "name": "FOD glyphs",
        "vertex_colors": colors,
        "scale": slice_steps_mm(fods.affine),
        **IN_MM,
        "shading": "none",
        "blending": "translucent_no_depth",
        "metadata": {KEY: {"glyphs_of": fods, PART: part, FOLLOWS: True}},
    }
    return data, keywords, "surface"


def glyph_data(fods: FodField, mesh: Mesh) -> tuple[tuple[Any, Any], Any]:
    """Return vertices and faces of glyphs in steps of the layer's slices, and their colors."""
    vertices, faces, colors = mesh
    return (vertices[:, ::-1] / slice_steps_mm(fods.affine), faces[:, ::-1]), colors


def fixels_of(layer: Any) -> FixelField | None:
    """Return the fixels that a layer carries, or None."""
    return carried_as(layer, "fixels", FixelField)


def fods_of(layer: Any) -> FodField | None:
    """Return the FODs that a layer carries, or None."""
    return carried_as(layer, "fods", FodField)
