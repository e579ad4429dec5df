"""What the tests of the dock widget "Denoise" share: noisy layers, and what a user does."""

import numpy as np

from napari_gpubio.core.napari_io import carried, series_layer, volume_layer
from napari_gpubio.denoise.gui import DenoisePanel
from tests.denoise.samples import steps_and_noise
from tests.dock_widgets import (
    MILLISECONDS,
    button,
    docked,
    press_and_wait,
    save_scripts_as,
    script_of,
    wait_until,
)

SHAPE = (20, 18, 16)
AFFINE = np.array([[-1.0, 0, 0, 30], [0, 1, 0, -20], [0, 0, 2, 10], [0, 0, 0, 1]])  # LAS, anisotropic
SAGITTAL = np.array([[0, 0, 1.0, 5], [1, 0, 0, -7], [0, -1, 0, 9], [0, 0, 0, 1]])  # stored axes run along y, -z, x


def noisy(shape=SHAPE, seed=0, sigma=4.0):
    return steps_and_noise(shape, seed, sigma).astype(np.float32)


def add_panel(viewer):
    panel = docked(viewer, DenoisePanel(viewer), "Denoise")
    panel.choose_device("cpu")
    return panel


def add_volume(viewer, array=None, affine=AFFINE, name="scan", **keywords):
    data, keywords, _ = volume_layer(noisy() if array is None else array, affine, name, **keywords)
    return viewer.add_image(data, **keywords)


def series(volumes=3):
    return np.stack([noisy(seed=n) for n in range(volumes)], -1)


def add_series(viewer, array=None, affine=AFFINE, name="series", **keywords):
    array = series() if array is None else array
    data, keywords, _ = series_layer(array, affine, name, "volume", **keywords)
    return viewer.add_image(data, **keywords)


def use(panel, **settings):
    """Set fields of the mode's form."""
    for name, value in settings.items():
        panel.mode.form.widget(name).value = value


def run(qtbot, panel, **settings):
    use(panel, **settings)
    press_and_wait(qtbot, panel, panel.run_button)


def names(viewer):
    return [layer.name for layer in viewer.layers]


def result_layers(viewer, name="scan"):
    """The denoised image, the residual and the noise."""
    return [viewer.layers[title.format(name)] for title in ("denoised {}", "residual {}", "noise σ of {}")]


def look(qtbot, panel):
    """Press Preview and wait for all of the slice; returns its layer."""
    with qtbot.waitSignal(panel.preview.shown, timeout=MILLISECONDS):
        panel.preview_button.click()
    settle(qtbot, panel)
    return panel.preview.layer


def settle(qtbot, panel):
    """Wait until no preview is under way."""
    wait_until(qtbot, lambda: not panel.preview.is_busy)


def run_script_here(panel, folder, monkeypatch):
    """Copy the script, save what it needs beside it, and run it in this process; returns its text."""
    (folder / "scripts").mkdir(exist_ok=True)
    save_scripts_as(monkeypatch, folder / "scripts" / "script.py")
    monkeypatch.chdir(folder)
    text = script_of(panel)
    exec(text, {})
    return text


def part_button(panel, part):
    """The button that shows the image before or after, the residual, the noise or the scale."""
    return button(panel.result_box, part.capitalize())


def number(panel, name):
    """A number of the result, as it is shown."""
    return next(row.text for row in panel.result_box.table.rows if row.name.startswith(name))


# -- fluence -----------------------------------------------------------------------------------------------------------

HALF_SHAPE = (24, 22, 20)
BOTH = "fluence even + odd"
SIZES = (1, 1, 2)  # of AFFINE


def half(seed, shape=HALF_SHAPE):
    """Counts of half of the photons of a beam along z."""
    x, y, z = np.indices(shape)
    truth = np.exp(-0.12 * z - 0.01 * (np.square(x - shape[0] / 2) + np.square(y - shape[1] / 2)))
    return (np.random.default_rng(seed).poisson(20 * truth) / 20).astype(np.float32)


EVEN, ODD = half(0), half(1)


def add_halves(viewer, affine=AFFINE, even=EVEN, odd=ODD):
    """The odd half, hidden, and the even one, which is the image."""
    add_volume(viewer, odd, affine, "fluence odd", visible=False)
    return add_volume(viewer, even, affine, "fluence even")


def add_gates(viewer):
    """Both halves with a second gate, both of them visible."""
    for name, array in (("fluence odd", ODD), ("fluence even", EVEN)):
        viewer.add_image(np.stack([array, array[::-1]], -1).T, name=name)


def add_labels(viewer, image, array):
    """Labels where an image lies."""
    data, keywords, _ = volume_layer(array, carried(image, "affine"), "tissue", kind="labels")
    return viewer.add_labels(data, **keywords)


def made(viewer, name=BOTH):
    """The denoised image, the residual, the noise that is left and the scale."""
    titles = ("denoised {}", "residual {}", "noise left in {}", "scale (mm) of {}")
    return [viewer.layers[title.format(name)] for title in titles]
