"""The dock widget "Denoise": the numbers of a result, against samples whose truth is known."""

import threading

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from napari_gpubio import denoise
from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.operations.layer_sources import layer_source
from napari_gpubio.core.steps import drive
from napari_gpubio.denoise.gui.run import Draft, Numbers, number_texts, run_steps
from napari_gpubio.denoise.napari_io import layer_volume
from napari_gpubio.denoise.operations import Denoise

NAN = float("nan")


def denoised(array, affine, settings, name="scan", **metadata):
    """What a run of the panel gives."""
    image_class = pytest.importorskip("napari.layers").Image
    data, keywords, _ = volume_layer(array, affine, name, metadata=metadata)
    layer = image_class(data, **keywords)
    image = layer_volume(layer, is_log="quantity" in metadata)
    fields = {"settings": settings, "log10": image.is_log, "volumes": None}
    sources = {"image": layer_source(layer)}
    draft = Draft(image=image, verb=Denoise, fields=fields, sources=sources, device="cpu")
    return drive(run_steps(draft, threading.Event()))


def test_the_gain_on_a_head_with_rician_noise():
    head = denoise.samples.noisy_head()
    part = np.s_[16:72, 20:84, 20:70]
    noisy, truth = head.noisy[part], head.truth[part]
    done = denoised(noisy, head.affine, denoise.DenoiseSettings(noise_model="rician"))
    signal = truth > 50
    before, after = (np.square(x - truth)[signal].mean() for x in (noisy, done.made.result.image))
    assert done.numbers.gain_db == pytest.approx(10 * np.log10(before / after), abs=1.5)
    assert done.numbers.times == pytest.approx(before / after, rel=0.4)


def test_the_gain_on_fluence_whose_noise_is_correlated():
    """With noise that is independent between voxels the estimate would be 3 dB too large here."""
    pair = denoise.samples.fluence_pair()
    done = denoised(
        denoise.values.to_log10(pair.half_a), pair.affine, denoise.DenoiseSettings(), quantity="log10 fluence"
    )
    raw, left = (
        gaussian_filter(np.square(x.astype(float) - pair.truth), 2) for x in (pair.half_a, done.made.result.image)
    )
    is_clear = pair.truth**2 > raw
    truth_db = np.median(10 * np.log10(raw / left)[is_clear])
    assert 4 < truth_db < 7
    assert done.numbers.gain_db == pytest.approx(truth_db, abs=1.5)


def test_noise_and_signal_to_noise_of_a_flat_image():
    rng = np.random.default_rng(0)
    flat = (200 + 5 * rng.standard_normal((40, 40, 40))).astype(np.float32)
    numbers = denoised(flat, np.eye(4), denoise.DenoiseSettings()).numbers
    assert numbers.noise == pytest.approx(5, rel=0.05)
    assert numbers.before_db == pytest.approx(20 * np.log10(200 / 5), abs=0.5)
    assert numbers.gain_db > 15


def test_numbers_as_text():
    image = layer_volume(pytest.importorskip("napari.layers").Image(np.ones((3, 3, 3))), is_log=False)
    texts = number_texts(Numbers(noise=25.123, relative_noise=0.1, before_db=20.0, gain_db=6.0), image)
    assert texts == {
        "noise": "25.1", "before": "20.0 dB", "gain": "≈ 6 dB", "times": "≈ 4 × the photons or averages",
    }  # fmt: skip
    unknown = number_texts(Numbers(noise=NAN, relative_noise=NAN, before_db=NAN, gain_db=NAN), image)
    assert set(unknown.values()) == {"not known"}
