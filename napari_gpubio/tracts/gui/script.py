"""Copy as Python of the panels of this engine: a script that shows what is on screen, bit by bit.

Each layer is made again from a file and the settings that made it, not from those that the panel shows now.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.napari_io import carried, grid_of, volume_of
from napari_gpubio.core.text import comment
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.gui.lines.sampling import LineImage
from napari_gpubio.gui.script import call_text, file_name
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tracts.fods.model import FixelField, FodField
from napari_gpubio.tracts.gui.appearance import DEFAULTS, filter_of, options_of
from napari_gpubio.tracts.gui.noise.script import rest_lines, shown_recipe
from napari_gpubio.tracts.gui.request import BundleSettings, Mask, Request
from napari_gpubio.tracts.gui.source import Trackable, display_lines, shown_as
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.io.tractograms import tractogram_suffix
from napari_gpubio.tracts.model import DiffusionScan
from napari_gpubio.tracts.napari_io import map_layer
from napari_gpubio.tracts.places import PLACED_IN
from napari_gpubio.tracts.seeds import label_points

Recipe = tuple[str, ...] | str
MOST_CLUSTERS = 500  # of a layer
CHECK = "print(tracts.tensors.check_gradients(field).message)"


def unsaved(layers: Iterable[Any]) -> list[Any]:
    """Return the layers that come with something that a script needs and no file holds."""
    layers, found = list(layers), dict[str, Any]()
    for layer in layers:
        for name in _unsaved_parts(layer, layers):
            found.setdefault(name, layer)
    return list(dict.fromkeys(found.values()))


def save_unsaved(layer: Any, layers: Iterable[Any], folder: Path) -> Path:
    """Write what one of the `unsaved` layers comes with into a folder.

    Masks become NIfTI files, seeds (S, 3) in world mm npy files, images that color fibers npz files. Returns the path
    of one of these files.
    """
    parts = _unsaved_parts(layer, list(layers))
    for name, part in parts.items():
        if isinstance(part, Mask):
            write_volume(folder / name, part.array.astype(np.uint8), part.affine)
            continue
        with atomic_write(folder / name) as path:
            if isinstance(part, LineImage):
                np.savez_compressed(path, array=part.array, affine=part.affine)
            else:
                np.save(path, part)
    return folder / next(iter(parts))


def _unsaved_parts(layer: Any, layers: list[Any]) -> dict[str, Any]:
    """What a layer comes with that no file holds, by the name of a file for it."""
    settings, mask = carried(layer, "settings"), carried(layer, "mask")
    parts: dict[str, Any] = {} if mask is None else {mask.name: mask}
    if isinstance(settings, BundleSettings) and settings.region and region_file(layer, layers) is None:
        parts[seeds_name(layer)] = carried(layer, "seeds_mm")
    image = layer.color_image if isinstance(layer, Streamlines) else None
    if image is not None and not any(is_map(x) and x.name == image.name and _holds(x, image) for x in layers):
        parts[image_name(image)] = image
    return parts


def seeds_name(layer: Any) -> str:
    """Return the name of a file for the seed points of a layer's fibers."""
    return f"{file_name(layer.name)} seeds.npy"


def source_recipe(source: Trackable, layer: Any, device: str) -> Recipe:
    """Return the lines that make ``field`` from the file of a layer, or the reason why there are none."""
    if isinstance(source, FodField | FixelField):
        made = fod_recipe(source, layer)
        name = "fods" if isinstance(source, FodField) else "fixels"
        return made if isinstance(made, str) else (*made, f"field = {name}")
    if (recipe := carried(layer, "recipe")) is not None:
        return recipe
    if isinstance(source, DiffusionScan):
        made = scan_recipe(source, layer)
        return made if isinstance(made, str) else (*made, f"field = tracts.fit_tensors(scan, device={device!r})")
    if source.path is None:
        return (
            f"the tensors of layer {layer.name!r} do not come from a file, so a script cannot find them; "
            "save the scan or the tensors and open the file"
        )
    return (f"field = tracts.io.read_tensors({str(source.path)!r})",)


def fod_recipe(field: FodField | FixelField, layer: Any) -> Recipe:
    """Return the lines that make ``fods`` or ``fixels``, or the reason why there are none."""
    if (recipe := carried(layer, "recipe")) is not None:
        return recipe
    if field.path is None:
        return f"what layer {layer.name!r} holds does not come from a file, so a script cannot find it; save it"
    name = "fods" if isinstance(field, FodField) else "fixels"
    return (f"{name} = tracts.io.read_{name}({str(field.path)!r})",)


def scan_recipe(scan: DiffusionScan, layer: Any) -> Recipe:
    """Return the lines that make ``scan`` from the file of a layer, or the reason why there are none."""
    if (recipe := carried(layer, "scan_recipe")) is not None:
        return recipe
    if scan.path is None:
        return (
            f"the scan of layer {layer.name!r} does not come from a file, so a script cannot find it; "
            "save it as NIfTI with its bval and bvec files, and open that"
        )
    return (reading_line(scan),)


def reading_line(scan: DiffusionScan) -> str:
    """Return the line that reads a scan from its file as it was read."""
    keywords = "".join(f", {name}={value!r}" for name, value in scan.read_with.items())
    return f"scan = tracts.io.read_dwi({str(scan.path)!r}{keywords})"


def checked(recipe: Recipe) -> tuple[str, ...]:
    """Return the lines of a recipe; InvalidInput with its sentence if there are none."""
    if isinstance(recipe, str):
        raise InvalidInput(recipe)
    return recipe


# -- fibers -----------------------------------------------------------------------------------------------------------


def fiber_lines(layer: Any, layers: Iterable[Any], *, filtered: bool = True) -> list[str]:
    """Return the lines that make the fibers of a layer and show them as they are shown, or all of them.

    ``layers``: all layers, labels of a region among them. InvalidInput if no script can make the fibers.
    """
    settings, path = carried(layer, "settings"), file_of(layer)
    if isinstance(settings, BundleSettings):
        lines = [*seed_lines(settings, region_seeds(layer, layers)), *tracking_lines(settings)]
        if not carried(layer, "tractogram").complete:
            lines.insert(0, "# the run was stopped early; here all fibers are traced")
    elif path is not None:
        reference = carried(layer, "tractogram").parameters.get(PLACED_IN)
        more = "" if reference is None else f", reference={reference!r}"
        lines = [f"fibers = tracts.io.read_tractogram({str(path)!r}{more})"]
        if (group := carried(layer, "group")) is not None:
            lines.append(f"fibers = tracts.bundles.by_group(fibers)[{group!r}]")
    else:
        raise InvalidInput(
            f"the fibers of {layer.name!r} come neither from this panel nor from a file, so a script cannot find them; "
            "save them and open the file, or hide the layer"
        )
    if (within := carried(layer, "clusters_mm")) is not None:
        lines.append(f"fibers = tracts.bundles.with_clusters(fibers, {within!r}, most={MOST_CLUSTERS})")
    return [comment(layer.name), *lines, *show_lines(layer, layers, filtered=filtered), ""]


def file_of(layer: Any) -> Path | None:
    """Return the file that the fibers of a layer were read from, or None."""
    found = carried(layer, "path") or carried(layer, "bundle")
    return Path(found) if isinstance(found, str) and tractogram_suffix(found) else None


def region_seeds(layer: Any, layers: Iterable[Any]) -> list[str]:
    """Return the lines that read the seed points of a label region; none for fibers of a clicked seed."""
    settings = carried(layer, "settings")
    if not settings.region:
        return []
    path = region_file(layer, layers)
    if path is None:
        return [f"seeds = np.load({seeds_name(layer)!r})"]
    return [
        f"labels, affine = tracts.io.read_volume({str(path)!r})",
        f"seeds = tracts.seeds.label_points(labels, affine, {settings.label}, per_voxel={settings.seeds.per_voxel})",
    ]


def region_file(layer: Any, layers: Iterable[Any]) -> Path | None:
    """Return the file of labels whose region gives exactly the seeds of a layer's fibers, or None."""
    settings, seeds = carried(layer, "settings"), carried(layer, "seeds_mm")
    for region in layers:
        path = carried(region, "path")
        if region.name != settings.region or path is None or not Path(path).is_file():
            continue
        array, affine = read_volume(Path(path))
        if not (array == settings.label).any():
            continue
        if np.array_equal(label_points(array, affine, settings.label, per_voxel=settings.seeds.per_voxel), seeds):
            return Path(path)
    return None


def seed_lines(settings: BundleSettings, of_region: list[str]) -> list[str]:
    """Return the lines that make the seed points."""
    if of_region:
        return of_region
    seeds = settings.seeds
    if seeds.points > 1 and seeds.radius_mm > 0:
        return [f"seeds = tracts.seeds.ball({settings.center_mm!r}, {seeds.radius_mm!r}, {seeds.points})"]
    return [f"seeds = [{settings.center_mm!r}]"]


def tracking_lines(settings: BundleSettings) -> list[str]:
    """Return the lines that trace fibers from seed points."""
    return [
        f"directions = {call_text('tracts', settings.directions)}",
        f"settings = {call_text('tracts', settings.tracking)}",
        f"fibers = tracts.track(field, seeds, directions, settings, device={settings.device!r})",
    ]


def show_lines(layer: Any, layers: Iterable[Any], *, filtered: bool) -> list[str]:
    """Return the lines that show fibers with the colors and lines of a layer, and perhaps its filter."""
    options = {name: value for name, value in options_of(layer).items() if value != DEFAULTS[name]}
    arguments = "".join(f", {name}={value!r}" for name, value in options.items())
    show = f"layer = tracts.show(viewer, fibers, {layer.name!r}{arguments})"
    return [show, *_image_lines(layer, layers), *(_filter_lines(layer) if filtered else [])]


def _image_lines(layer: Any, layers: Iterable[Any]) -> list[str]:
    """The lines that color fibers by an image, with its limits."""
    image = layer.color_image
    if image is None:
        return []
    its_layer = next((x for x in layers if is_map(x) and x.name == image.name and _holds(x, image)), None)
    if its_layer is None:
        lines = [
            f"with np.load({image_name(image)!r}) as file:",
            "    array, affine = file['array'], file['affine']",
            f"image = LineImage(name={image.name!r}, array=array, affine=affine, unit={image.unit!r})",
            "layer.color_by_image(image)",
        ]
    else:
        lines = [f"layer.color_by_image(viewer.layers[{its_layer.name!r}])"]
    return lines + ([] if layer.own_limits is None else [f"layer.contrast_limits = {layer.own_limits!r}"])


def _holds(layer: Any, image: LineImage) -> bool:
    return np.array_equal(volume_of(layer), image.array) and np.array_equal(grid_of(layer)[0], image.affine)


def image_name(image: LineImage) -> str:
    """Return the name of a file for an image that colors fibers."""
    return f"{file_name(image.name)} image.npz"


def _filter_lines(layer: Any) -> list[str]:
    shown, chosen = layer.shown, filter_of(layer)
    if shown.all():
        return []
    passing = None if chosen is None else chosen.passes(layer.per_fiber)
    if chosen is not None and passing is not None and np.array_equal(shown, passing):
        return [f"values = layer.per_fiber[{chosen.measure!r}]", f"layer.shown = {chosen.code()}"]
    which = np.flatnonzero(shown).tolist()  # a script, or another plugin, has chosen them
    return [f"layer.shown = np.isin(np.arange({len(shown)}), {which})"]


def request_lines(request: Request) -> list[str]:
    """Return the lines that trace a seed that has no fibers yet, as the panel would."""
    if request.region is not None:
        raise InvalidInput(f"the fibers of {request.name!r} are not traced yet; press Track, then copy")
    settings = request.settings
    show = f"layer = tracts.show(viewer, fibers, {request.name!r})"
    return [comment(request.name), *seed_lines(settings, []), *tracking_lines(settings), show, ""]


def tracking_script(layers: Sequence[Any], request: Request | None, saved: Mapping[str, Path]) -> str:
    """Return a script that shows all fibers of a viewer, with the maps of their tensors.

    Parameters
    ----------
    layers
        The viewer's layers.
    request
        A seed that has no fibers yet, or None.
    saved
        What `save_unsaved` has written.

    Raises
    ------
    InvalidInput
        If no script can make something that is visible.
    """
    parts: dict[Recipe, list[str]] = {}
    for layer in [x for x in layers if isinstance(x, Streamlines)]:
        recipe = carried(layer, "recipe") or ()
        try:
            lines = fiber_lines(layer, layers)
            parts.setdefault(checked(recipe), []).extend(lines)
        except InvalidInput:
            if layer.visible:
                raise
            parts.setdefault((), []).extend([comment(f"{layer.name} is hidden, and no script can make it"), ""])
    if request is not None:
        parts.setdefault(checked(request.recipe), []).extend(request_lines(request))
    body = []
    for recipe, lines in parts.items():
        maps = map_lines(layers, recipe) if recipe else []
        body += [*recipe, *([""] if recipe else []), *maps, *([""] if maps else []), *lines]
    return script_text(body, _files_of(layers, saved))


def _files_of(layers: Sequence[Any], saved: Mapping[str, Path]) -> dict[str, Path]:
    """The files that `save_unsaved` has written, by the names that lines have for them."""
    names = [name for layer in layers for name in _unsaved_parts(layer, list(layers))]
    return {name: path.parent / name for path in saved.values() for name in names}


def script_text(body: Iterable[str], saved: Mapping[str, Path]) -> str:
    """Return a script with what it imports, the viewer that it shows things in, and these lines.

    ``saved``: paths of files that were written for it, by the names that the lines have for them.
    """
    text = "\n".join(body).rstrip()
    for name, path in saved.items():
        text = text.replace(repr(name), repr(str(path)))
    imports = ["import napari"]
    imports += ["import numpy as np"] if "np." in text else []
    ours = ["from napari_gpubio import tracts"]
    ours += ["from napari_gpubio.gui.lines.sampling import LineImage"] if "LineImage(" in text else []
    makers = [name for name in ("denoised_layer", "ellipsoid_layer", "map_layer") if f"{name}(" in text]
    ours += [f"from napari_gpubio.tracts.napari_io import {', '.join(makers)}"] if makers else []
    viewer = "viewer = napari.current_viewer() or napari.Viewer()"
    return "\n".join([*imports, "", *ours, "", viewer, "", text, "", "napari.run()", ""])


# -- maps -------------------------------------------------------------------------------------------------------------


def maps_script(layers: Sequence[Any], saved: Mapping[str, Path]) -> str:
    """Return a script that shows all maps of tensors in a viewer, and the ellipsoids; see `tracking_script`."""
    recipes = dict.fromkeys(_recipe_of_map(layer) for layer in layers if is_map(layer))
    body, rest = list[str](), list(layers)
    for recipe in recipes:
        maps = [*map_lines(layers, recipe), *_ellipsoid_lines(layers, recipe)]
        lines = shown_recipe(checked(recipe), rest)
        body += [*lines, "", *([CHECK, ""] if _is_fit(recipe) else []), *maps, ""]
    return script_text([*body, *rest_lines(rest)], _files_of(layers, saved))


def fit_script(
    recipe: Recipe, maps: Iterable[str], study: str, layers: Sequence[Any], saved: Mapping[str, Path]
) -> str:
    """Return a script that fits a scan and shows maps of its tensors, of which there are none yet.

    ``layers``: those of the viewer, of which denoised scans are shown, too; ``saved`` as in `script_text`.
    """
    rest = list(layers)
    lines = [*shown_recipe(checked(recipe), rest), "", CHECK, "", *new_map_lines(maps, study), ""]
    return script_text([*lines, *rest_lines(rest)], saved)


def map_lines(layers: Iterable[Any], recipe: Recipe) -> list[str]:
    """Return the lines that show those layers that are maps of the tensors of a recipe, with their display settings."""
    lines = list[str]()
    for layer in layers:
        if not is_map(layer) or _recipe_of_map(layer) != recipe:
            continue
        field, name, study = (carried(layer, what) for what in ("field", "map", "study"))
        data, keywords, _ = map_layer(field, name, study)
        lines += new_map_lines([name], study)
        lines += display_lines(layer, shown_as(Image(data, **keywords)))
    return lines


def is_map(layer: Any) -> bool:
    """Whether a layer is a map of tensors, as this package has made it."""
    return isinstance(layer, Image) and carried(layer, "map") is not None


def new_map_lines(names: Iterable[str], study: str) -> list[str]:
    """Return the lines that show maps of ``field`` as they are shown at first."""
    lines = list[str]()
    for name in names:
        lines.append(f"data, keywords, _ = map_layer(field, {name!r}, {study!r})")
        lines.append("layer = viewer.add_image(data, **keywords)")
    return lines


def _ellipsoid_lines(layers: Iterable[Any], recipe: Recipe) -> list[str]:
    lines = list[str]()
    for layer in layers:
        if carried(layer, "ellipsoids") and _recipe_of_map(layer) == recipe:
            lines.append(f"data, keywords, _ = ellipsoid_layer(field, {carried(layer, 'ellipsoids')})")
            lines.append("layer = viewer.add_surface(data, **keywords)")
            lines += [f"layer.{name} = {getattr(layer, name)!r}" for name in ("visible", "opacity")]
    return lines


def _recipe_of_map(layer: Any) -> Recipe:
    return source_recipe(carried(layer, "field"), layer, "auto")


def _is_fit(recipe: Recipe) -> bool:
    return any("fit_tensors" in line for line in recipe)
