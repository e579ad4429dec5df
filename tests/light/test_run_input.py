"""What a run refuses before it starts, in a sentence; and the memory that it needs."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core import memory
from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from napari_gpubio.light.run import check_source, needed_memory_mb, simulate, simulate_steps
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.sources import KINDS, AllRound, Pencil
from tests.light.voxel_samples import make_domain, source_of

DOMAIN = make_domain((8, 9, 10))
SOURCE = Pencil(position_mm=(4.1, 4.2, 0.0))
SETTINGS = LightSettings(photons=4000, batches=8)

# -- what is refused --------------------------------------------------------------------------------------------------


def hollow():
    """Tissue below and above a hollow, with a hole through it."""
    labels = np.ones((8, 9, 10), np.uint8)
    labels[:, :, 4:6] = 0
    labels[2, 2, :] = 0
    return make_domain(labels)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"position_mm": (4, 4, -5), "direction": (0, 0, -1)},
            "points away from it, so no light enters. Reverse its",
        ),
        ({"position_mm": (4, 4, -5), "direction": (1, 0, 0)}, r"no light enters.*It is at \(4, 4, -5\) mm"),
        ({"position_mm": (40, 4, -5)}, r"passes the tissue by.* at \(40, 4, -5\) mm"),
        ({"position_mm": (2.5, 2.5, -1)}, "passes the tissue by"),  # through the hole
        ({"position_mm": (4, 4, 0.01), "direction": (0, 0, -1)}, "points out of the tissue: .* reverse its direction"),
        ({"position_mm": (4, 4, 3.99)}, "points out of the tissue"),  # into the hollow
    ],
)
def test_sources_that_cannot_light_the_tissue(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        simulate(hollow(), Pencil(**values), SETTINGS, device="cpu")


@pytest.mark.parametrize(
    "values",
    [
        {"position_mm": (4, 4, 5)},  # from the hollow up
        {"position_mm": (4, 4, 5), "direction": (0, 0, -1)},
        {"position_mm": (4, 4, -500)},
        {"position_mm": (4, 4, 0.001), "kind": "isotropic"},
        {"position_mm": (4, 4, -1), "kind": "isotropic"},  # half of its light
        {"position_mm": (4, 4, 5), "kind": "line"},
        {"position_mm": (4, 4, 0.5), "direction": (0, 0, -1)},
        {"position_mm": (4, 4, 3.99), "direction": (0, 0, -1)},
    ],
)
def test_sources_that_can(values):
    check_source(hollow(), KINDS[values.get("kind", "pencil")](**{k: v for k, v in values.items() if k != "kind"}))


@pytest.mark.parametrize("kind", KINDS)
def test_tissue_may_be_one_voxel_thick(kind):
    domain = make_domain((1, 1, 1), voxel_mm=60.0)
    z = 30.0 if issubclass(KINDS[kind], AllRound) else 0.0
    pattern = {"pattern": np.ones((2, 2)), "volume": np.ones((2, 2, 2))}.get(kind)
    source = source_of(kind, position_mm=(30.5, 30.5, z), pattern=pattern)
    result = simulate(domain, source, LightSettings(photons=160), device="cpu")
    assert result.energy.absorbed.value > 0.1


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"position_mm": (4, 4, -3)}, "detector 1 is 3 mm from the nearest surface .* move it to the surface"),
        ({"position_mm": (4, 4, 5), "name": "D7"}, "detector D7 is 4 mm from the nearest surface"),
    ],
)
def test_detectors_that_can_catch_nothing(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        simulate(DOMAIN, SOURCE, SETTINGS, detectors=[Detector(**values)], device="cpu")


def test_a_gpu_that_is_not_there_is_not_replaced(fake_gpu):
    fake_gpu(count=0, driver=False)
    with pytest.raises(GpuUnavailable, match="device 'cuda'"):
        simulate(DOMAIN, SOURCE, SETTINGS, device="cuda")
    assert simulate(DOMAIN, SOURCE, SETTINGS, device="auto").parameters["device"].startswith("cpu")


# -- memory -----------------------------------------------------------------------------------------------------------


def test_needed_memory_grows_with_what_is_kept():
    base = needed_memory_mb(DOMAIN, SETTINGS, "cpu")
    cells = 10 * 11 * 12
    assert base * 2**20 == pytest.approx(cells * (8 * 4 + 1), rel=0.1)
    for more in ({"halves": True}, {"exit_map": True}, {"time_gates_ns": (0.0, 1.0, 2.0)}):
        assert needed_memory_mb(DOMAIN, dataclasses.replace(SETTINGS, **more), "cpu") > base


def test_what_a_run_needs_is_what_it_takes(fake_gpu, few_builds):
    """Within a few per cent, on each GPU."""
    pretended = fake_gpu(count=2)
    domain = make_domain((30, 30, 30))
    for device in ("cuda:0", "cuda:0,1"):
        needed = needed_memory_mb(domain, SETTINGS, device) * 2**20
        steps = simulate_steps(domain, Pencil(position_mm=(15, 15, 0)), SETTINGS, device=device)
        next(steps), next(steps)
        assert pretended.used_bytes[0] == pytest.approx(needed, rel=0.05)
        steps.close()


def test_too_little_memory_is_reported_before_the_start(monkeypatch):
    monkeypatch.setattr(memory, "free_memory_bytes", lambda device: 20_000)
    with pytest.raises(InvalidInput, match=r"needs about \d+ MB and 0 MB are free; take fewer time gates"):
        next(simulate_steps(DOMAIN, SOURCE, SETTINGS, device="cpu"))
    monkeypatch.setattr(memory, "free_memory_bytes", lambda device: 100_000)
    assert simulate(DOMAIN, SOURCE, SETTINGS, device="cpu").complete  # just enough
