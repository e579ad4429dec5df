"""Which device is taken, and the reason that is given."""

import sys

import pytest

from napari_gpubio.core import device as devices
from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from tests.conftest import forget_gpu


@pytest.fixture
def no_cupy(monkeypatch):
    """A machine without CuPy."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    forget_gpu()
    yield
    forget_gpu()


@pytest.mark.parametrize(
    ("wish", "indices"),
    [
        ("cuda", (0,)), ("cuda:0", (0,)), ("cuda:2", (2,)), ("cuda:0,2", (0, 2)), ("cuda:2,0", (2, 0)),
        ("cuda:1,1", (1,)), ("cuda:all", (0, 1, 2)), (" CUDA:1 ", (1,)),
    ],
)  # fmt: skip
def test_forms_of_a_gpu(fake_gpu, wish, indices):
    fake_gpu(count=3)
    assert choose_device(wish) == Device("cuda", indices)


def test_forms_of_the_cpu():
    assert choose_device("cpu") == choose_device(" CPU ") == choose_device(CPU) == CPU


@pytest.mark.parametrize("wish", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0,", "cuda0", "cpu:0"])
def test_other_forms_are_refused_with_the_allowed_ones(wish):
    with pytest.raises(InvalidInput, match=rf"device is '{wish}'; choose 'auto', 'cpu', 'cuda'"):
        choose_device(wish)


def test_automatic_without_a_gpu_takes_the_cpu_and_says_why(no_cupy, caplog):
    with caplog.at_level("INFO"):
        device = choose_device("auto")
    assert not device.is_gpu
    assert device.note == devices.gpu_problem()
    assert device.note in caplog.text


def test_the_argument_beats_the_environment_and_that_beats_automatic(fake_gpu, monkeypatch):
    fake_gpu(count=2)
    assert choose_device() == choose_device(None) == Device("cuda", (0,), note="the first GPU")
    monkeypatch.setenv(devices.ENVIRONMENT, "cuda:1")
    assert choose_device("auto") == choose_device(None) == Device("cuda", (1,))
    assert choose_device("cpu") == CPU
    assert choose_device("cuda:0") == Device("cuda", (0,))
    monkeypatch.setenv(devices.ENVIRONMENT, "")
    assert choose_device("auto").indices == (0,)


@pytest.mark.parametrize("wish", ["cuda", "cuda:0", "cuda:all"])
def test_a_gpu_by_name_never_falls_back(no_cupy, monkeypatch, wish):
    with pytest.raises(GpuUnavailable, match=rf"device '{wish}' was requested, but CuPy is not installed"):
        choose_device(wish)
    monkeypatch.setenv(devices.ENVIRONMENT, wish)
    with pytest.raises(GpuUnavailable, match="CuPy is not installed"):
        choose_device("auto")


def test_a_gpu_that_is_not_there(fake_gpu):
    fake_gpu(count=2)
    with pytest.raises(GpuUnavailable, match="there is no GPU 5; this machine has 2"):
        choose_device("cuda:0,5")


def test_why_not_without_cupy(no_cupy):
    assert "pip install 'napari-gpubio[cuda13]'" in devices.gpu_problem()
    assert devices.list_devices() == [CPU]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"driver": False}, ["finds no NVIDIA GPU or driver"]),
        (
            {"kernel_error": RuntimeError("no NVRTC here\nsecond line")},
            ["a test kernel failed (RuntimeError: no NVRTC here)", "pip install 'napari-gpubio[cuda13]'"],
        ),
        ({"kernel_error": RuntimeError()}, ["a test kernel failed (RuntimeError"]),
        ({"dead_kernels": True}, ["wrong result"]),
    ],
    ids=["no driver", "a failing kernel", "without a message", "a kernel that does nothing"],
)
def test_why_not_with_cupy(fake_gpu, facts, words):
    fake_gpu(**facts)
    assert all(text in devices.gpu_problem() for text in words)
    assert "second line" not in devices.gpu_problem()


def test_why_not_on_macos(monkeypatch):
    monkeypatch.setattr(devices.sys, "platform", "darwin")
    forget_gpu()
    assert "macOS has no CUDA" in devices.gpu_problem()
    monkeypatch.undo()
    forget_gpu()


def test_working_gpus_have_no_problem_and_names(fake_gpu):
    fake_gpu(count=2)
    assert devices.gpu_problem() is None
    assert devices.list_devices() == [CPU, Device("cuda", (0,)), Device("cuda", (1,))]
    assert str(CPU) == "cpu"
    assert str(Device("cuda", (0, 1))) == "cuda:0,1"
    assert CPU.describe().startswith("cpu (")
    assert Device("cuda", (1,)).describe() == "cuda:1 (Fake GPU 1)"
    assert choose_device(str(choose_device("cuda:all"))) == choose_device("cuda:all")


def test_free_memory_is_that_of_the_fullest_gpu(fake_gpu):
    gpu = fake_gpu(count=2, total_bytes=1000)
    with gpu.module.cuda.Device(1):
        kept = gpu.module.zeros(400, "uint8")
    assert devices.free_memory_bytes(Device("cuda", (0, 1))) == 1000 - kept.nbytes
    assert devices.free_memory_bytes(Device("cuda", (0,))) == 1000
    devices.free_gpu_pool(Device("cuda", (0, 1)))
    assert 2**20 < devices.free_memory_bytes(CPU) < 2**50


def test_only_cupys_own_error_is_out_of_gpu_memory(fake_gpu):
    gpu = fake_gpu(total_bytes=10)
    with pytest.raises(MemoryError) as caught:
        gpu.module.zeros(11, "uint8")
    assert devices.is_out_of_gpu_memory(caught.value)
    assert not devices.is_out_of_gpu_memory(MemoryError())
    assert not devices.is_out_of_gpu_memory(type("OutOfMemoryError", (Exception,), {})())


def test_machine_names_processor_and_versions(fake_gpu):
    fake_gpu(count=1)
    facts = devices.machine()
    assert {"platform", "cpu", "cores", "python", "numpy", "numba", "cupy"} <= set(facts)
    assert facts["gpus"] == "cuda:0 (Fake GPU 0)"
    assert all(isinstance(value, str) and value for value in facts.values())


@pytest.mark.gpu
def test_a_real_gpu_is_found():
    assert choose_device("cuda").describe().startswith("cuda:0 (")
    assert devices.free_memory_bytes(choose_device("cuda")) > 0
