"""The first minute: the sample brain, a click already made, its fibers; in a window or, with no display, as files."""

import logging
from pathlib import Path
from typing import Any

from napari_gpubio import diffusion, tractograms
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.files import atomic_write
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from napari_gpubio.tractograms.picture import fiber_picture, save_picture

logger = logging.getLogger(__name__)
CLICKS_MM = {"callosum": (0.0, -5.0, 22.0), "corticospinal": (-22.0, -18.0, 12.0)}
FILES = ("fibers.png", *(f"{name}.trk" for name in CLICKS_MM))  # of `run_headless`
RADIUS_MM, POINTS = 3.0, 100
DIRECTIONS = fiber_tracking.Cone(count=10, half_angle_deg=15.0)
READ_PATTERNS = ("*.nii", "*.nii.gz", "*.mif", "*.mif.gz", "*.trk", "*.tck", "*.trx", "*.dcm")
SETTINGS = fiber_tracking.Hamiltonian(step_mm=0.55)


def run_headless(folder: Path, device: str = "auto") -> list[Path]:
    """Do the demonstration without a display.

    Parameters
    ----------
    folder
        Where the picture and the fibers are written; it is made if it is not there.
    device
        See `napari_gpubio.core.device.choose_device`.

    Returns
    -------
    list of Path
        The picture (PNG) and a tractogram (trk) for each click.
    """
    folder.mkdir(parents=True, exist_ok=True)
    field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom(), device=device)
    bundles = {
        name: fiber_tracking.track(
            field, fiber_tracking.seeds.ball(click, RADIUS_MM, POINTS), DIRECTIONS, SETTINGS, device=device
        )
        for name, click in CLICKS_MM.items()
    }
    written = []
    for name, fibers in bundles.items():
        written.append(folder / f"{name}.trk")
        write_tractogram(written[-1], fibers)
    everything = tractograms.Tractogram.join(list(bundles.values()))
    with atomic_write(folder / "fibers.png") as part:
        save_picture(part, fiber_picture(field, everything, center_mm=CLICKS_MM["callosum"]))
    return [folder / "fibers.png", *written]


def run_window(device: str = "auto") -> int:
    """Open napari with the demonstration and wait until it is closed; returns the exit status."""
    import napari

    prefer_readers()
    viewer = napari.Viewer(title="napari-gpubio")
    panel = build_window(viewer, device)
    panel.run_finished.connect(lambda: logger.info("demonstration ready"))
    napari.run()
    return 0


def prefer_readers() -> None:
    """Have napari open the files that the plugin reads without asking who reads them, unless the user has decided."""
    from napari.settings import get_settings

    plugins = get_settings().plugins
    plugins.extension2reader = dict.fromkeys(READ_PATTERNS, "napari-gpubio") | dict(plugins.extension2reader)


def build_window(viewer: Any, device: str = "auto") -> Any:
    """Set a viewer up for the demonstration and start it; returns the tracking panel."""
    from qtpy.QtCore import Qt

    viewer.open_sample("napari-gpubio", "brain_phantom")
    _, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking")
    panel.choose_device(device)
    panel.settings_form.set_value(SETTINGS)
    panel.run_finished.connect(lambda: show_result(viewer, panel), type=Qt.ConnectionType.SingleShotConnection)
    panel.place_seed(CLICKS_MM["callosum"])
    return panel


def show_result(viewer: Any, panel: Any) -> None:
    """Turn the demonstration's view to the fibers in 3-D, over a plane of FA."""
    from napari_gpubio.gui.views import camera_of

    for layer in viewer.layers:
        if layer.name.endswith("DEC"):
            layer.visible = False
        elif layer.name.endswith("FA"):
            viewer.layers.selection.active = layer
    panel.context_box.choose("axial")
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    panel.controller.guide.go()  # to the slice of the seed, in 2-D, too
    camera = camera_of(viewer)
    camera.angles = (14.0, -28.0, 58.0)
