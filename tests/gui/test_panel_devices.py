"""The list of devices of the dock widgets."""

import threading

import pytest

from napari_gpubio.core import device as devices
from napari_gpubio.gui.processors import DevicePicker
from tests.gui.counting_panel import SECONDS, CountingPanel


@pytest.fixture
def machine(monkeypatch):
    """A function that says which GPUs the machine has; the look for them waits until ``machine.found`` is set."""
    from napari_gpubio.gui import processors as module

    found = threading.Event()

    def has(count, problem=None):
        gpus = [devices.Device("cuda", (i,)) for i in range(count)]

        def look():
            assert found.wait(SECONDS)
            return [devices.CPU, *gpus]

        monkeypatch.setattr(module, "list_devices", look)
        monkeypatch.setattr(module, "gpu_problem", lambda: problem)
        monkeypatch.setattr(devices.Device, "describe", lambda self: f"the {self}")

    has.found = found
    return has


def offered(box):
    return [box.itemData(i) for i in range(box.count())]


def ready(qtbot, box):
    qtbot.waitUntil(lambda: "looking" not in box.toolTip(), timeout=1000 * SECONDS)


def test_the_device_list(qtbot, machine):
    machine(2)
    panel = CountingPanel()
    qtbot.addWidget(panel)
    box = panel.findChild(DevicePicker)
    assert offered(box) == ["auto", "cpu"]  # before anybody knows
    assert box.currentData() == "auto"
    machine.found.set()
    ready(qtbot, box)
    assert offered(box) == ["auto", "cpu", "cuda:0", "cuda:1", "cuda:all"]
    assert box.itemText(2) == "the cuda:0"
    assert box.currentData() == "auto"
    panel.teardown()


def test_a_machine_without_a_gpu_says_why(qtbot, machine):
    machine(0, "CuPy is not installed")
    machine.found.set()
    panel = CountingPanel()
    qtbot.addWidget(panel)
    box = panel.findChild(DevicePicker)
    ready(qtbot, box)
    assert offered(box) == ["auto", "cpu"]
    assert "CuPy is not installed" in box.toolTip()
    panel.teardown()


def test_one_gpu_needs_no_entry_for_all(qtbot, machine):
    machine(1)
    machine.found.set()
    panel = CountingPanel()
    qtbot.addWidget(panel)
    ready(qtbot, panel.findChild(DevicePicker))
    assert offered(panel.findChild(DevicePicker)) == ["auto", "cpu", "cuda:0"]
    panel.teardown()


def test_a_device_chosen_before_the_look_has_ended_is_listed_once(qtbot, machine):
    machine(2)
    panel = CountingPanel()
    qtbot.addWidget(panel)
    panel.choose_device("cuda:1")
    machine.found.set()
    ready(qtbot, panel.findChild(DevicePicker))
    assert panel.device == "cuda:1"
    assert sorted(offered(panel.findChild(DevicePicker))) == ["auto", "cpu", "cuda:0", "cuda:1", "cuda:all"]
    panel.teardown()
