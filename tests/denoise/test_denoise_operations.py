"""No field of denoising is ignored: each alone changes a result."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.operations import HeldVolume, Store, Volume, digest, run
from napari_gpubio.core.operations.records import input_infos
from napari_gpubio.core.settings import field_names
from napari_gpubio.denoise import DenoiseSettings, Large, Mixed, Small
from napari_gpubio.denoise.fluence import FluenceSettings
from napari_gpubio.denoise.operations import Denoise, DenoiseFluence
from tests.denoise.samples import steps_and_noise

SHAPE, AFFINE = (20, 18, 16), np.diag([1.0, 1.0, 2.0, 1.0])
ANLM = {
    "patches": Small(), "search_radius": 1, "noise_model": "rician", "noise_from": "patches", "preselection": "none",
    "center": "largest", "cutoff": 1.0, "skip_zeros": True,
}  # fmt: skip
FLUENCE = {"largest_scale": 2.0, "flat": False, "smoothness": 1.0, "cap": 0.25, "seed": 2}
OF_IMAGE = {"sigma": 9.0, "volumes": (0, 0), "log10": True, "skip_gaps": True}


def volume(array, name="image"):
    return Volume(array=np.asarray(array, np.float32), affine=AFFINE, name=name)


@pytest.fixture(scope="module")
def store():
    return Store()


@pytest.fixture(scope="module")
def image(store):
    """Two flat halves."""
    return HeldVolume.of(volume(steps_and_noise(SHAPE)), store)


@pytest.fixture(scope="module")
def halves(store):
    """Photons of both halves of a run, and of one run alone."""
    rng, depth = np.random.default_rng(2), np.indices((16, 16, 16)).sum(axis=0)
    mean = 300 * np.exp(-depth / 9)
    return [HeldVolume.of(volume(rng.poisson(mean), name), store) for name in ("even", "odd")]


def outcome(operation, store):
    """Digests of all results."""
    made = run(operation, device="cpu", store=store)
    return [digest(operation.output(name).value_in(made)) for name in operation.makes]


def same(one, other, store):
    return outcome(one, store) == outcome(other, store)


def test_each_setting_of_patches_changes_an_image(image, store):
    assert {*ANLM} == field_names(DenoiseSettings)
    sparse = HeldVolume.of(volume(steps_and_noise(SHAPE, empty=0.1)), store)
    kinds = [Denoise(image=image, settings=DenoiseSettings(patches=one)) for one in (Mixed(), Small(), Large())]
    assert field_names(Mixed) == {"mixing"}
    assert not field_names(Small) | field_names(Large)
    kinds.append(Denoise(image=image, settings=DenoiseSettings(patches=Mixed(mixing="mean"))))
    assert len({repr(outcome(one, store)) for one in kinds}) == 4
    for name, value in ANLM.items():
        usual = Denoise(image=sparse if name == "skip_zeros" else image)
        other = dataclasses.replace(usual, settings=DenoiseSettings(**{name: value}))
        assert not same(usual, other, store), name


def test_each_setting_of_scales_changes_an_image(halves, store):
    assert {*FLUENCE} == field_names(FluenceSettings)
    for name, value in FLUENCE.items():
        second = None if name == "seed" else halves[1]  # only one buffer is split
        one = DenoiseFluence(image=halves[0], second=second, mueff_per_mm=1.0)
        other = dataclasses.replace(one, settings=FluenceSettings(**{name: value}))
        assert not same(one, other, store), name
    assert not same(one, dataclasses.replace(one, mueff_per_mm=0.1), store), "of the cap"


def test_each_field_of_the_image_changes_it(image, store):
    assert {*OF_IMAGE} == field_names(Denoise) - {*input_infos(Denoise)} - {"settings"}
    gaps, series = store.array(image.array).copy(), np.stack([store.array(image.array)] * 2, -1)
    gaps[3, 3, 3] = np.nan
    given = {"volumes": series + np.arange(2), "log10": np.log10(series[..., 0] + 1), "skip_gaps": gaps}
    for name, value in OF_IMAGE.items():
        usual = Denoise(image=HeldVolume.of(volume(given[name]), store) if name in given else image)
        other = dataclasses.replace(usual, **{name: value})
        if name == "skip_gaps":  # without, they are refused
            with pytest.raises(ValueError, match="not finite"):
                run(usual, device="cpu", store=store)
            run(other, device="cpu", store=store)
        else:
            assert not same(usual, other, store), name
