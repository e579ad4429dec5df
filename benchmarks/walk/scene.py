"""Where the walk begins: samples, all panels, and results of those that can run on the samples."""

import time
from typing import Any

from person import Person
from rules import Ledger
from steps import LINKED

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.files import sample_path
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.switcher import names_of_panels, open_panel
from napari_gpubio.gui.views import show_slices_at

_PLUGIN = "napari-gpubio"
_SAMPLES = {
    True: ("brain_phantom", "brain_phantom_atlas"),
    False: ("head_phantom", "treatment", "flow_phantom", "noisy_head"),
}
_RUNS = {
    True: (
        "Diffusion tensors", "Fiber orientations", "Fiber tracking", "Dissect fibers", "Connect regions", "Connectome",
        "Bundle profiles", "Fiber flow",
    ),
    False: ("Light transport", "Denoise", "Dose-volume histogram", "Laser speckle"),
}  # fmt: skip
_SEED_MM = (0.0, -5.0, 22.0)  # in the corpus callosum of the sample
_PHOTONS = "20,000"
_RUN_S = 120.0


def open_samples(person: Person, *, is_brain: bool) -> None:
    """Open what is worked on."""
    for name in _SAMPLES[is_brain]:
        person.ask(lambda name=name: person.viewer.open_sample(_PLUGIN, name))
    if is_brain:
        path = sample_path("brain_phantom/bundles.trk")
        person.ask(lambda: person.viewer.open(path, plugin=_PLUGIN))


def open_panels(person: Person) -> None:
    """Open every panel of the manifest; not the linked views."""
    for name in names_of_panels():
        if name != LINKED:
            person.ask(lambda name=name: open_panel(person.viewer, name))
            time.sleep(0.3)


def run_panels(person: Person, ledger: Ledger, *, is_brain: bool) -> None:
    """Run the panels that can, so that there is something to lose."""
    for name in _RUNS[is_brain]:
        panel = person.ask(lambda name=name: open_panel(person.viewer, name))
        if name == "Fiber tracking":
            person.ask(lambda: show_slices_at(person.viewer, _SEED_MM[::-1]))
            person.click_at(person.on_canvas(_SEED_MM))
        elif name == "Light transport":
            person.ask(lambda panel=panel: panel.voxels.run_box.photons.text_box.setText(_PHOTONS))
            head = next(layer for layer in person.viewer.layers if "head" in layer.name.lower())
            person.ask(lambda head=head: _show_middle(person.viewer, head))
            person.click_at(person.on_canvas(person.ask(lambda head=head: _surface(head))))
        time.sleep(0.5)
        _run(person, panel, name)
    _idle(person, ledger)


def _run(person: Person, panel: Any, name: str) -> None:
    try:
        person.ask(lambda: (history_of(person.viewer).note_act(), panel.run()))
    except GpuBioError as error:
        print(f"{name} could not run: {error}")
    end = time.monotonic() + _RUN_S
    while person.ask(lambda: panel.running or panel.waiting) and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.3)
    if message := person.ask(lambda: panel.message):
        print(f"{name}: {message}")


def _idle(person: Person, ledger: Ledger) -> None:
    end = time.monotonic() + _RUN_S
    while person.ask(ledger.busy) and time.monotonic() < end:
        time.sleep(0.1)


def _show_middle(viewer: Any, layer: Any) -> None:
    """Show the middle slice of a layer."""
    middle = layer.data_to_world([size // 2 for size in layer.data.shape])
    viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), middle[-3:])


def _surface(layer: Any) -> tuple[float, ...]:
    """A point (x, y, z) at the front of a head in its middle slice."""
    index, _, column = (size // 2 for size in layer.data.shape)
    rows = (layer.data[index, :, column] > 0).nonzero()[0]
    front = max((layer.data_to_world((index, row, column)) for row in rows[[0, -1]]), key=lambda zyx: zyx[1])
    return tuple(float(value) for value in front[::-1])
