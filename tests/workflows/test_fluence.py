"""Light, denoise and dose as one script: the fluence is cleaned with what its run knows, and counted by region."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio import denoise, light, optics, workflows
from napari_gpubio.cli import main
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.volumes import open_volume
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.light.guide import diffusion_guide, with_guide
from napari_gpubio.light.statistics import label_fluence
from napari_gpubio.optics.estimates import fluence_units
from napari_gpubio.optics.model import Domain, Medium

MEDIA = (
    Medium(label=1, name="top", mua_per_mm=0.02, mus_per_mm=10.0, g=0.9, n=1.37),
    Medium(label=2, name="bottom", mua_per_mm=0.05, mus_per_mm=10.0, g=0.9, n=1.37),
)


def slab():
    labels = np.ones((24, 24, 20), np.uint8)
    labels[:, :, 10:] = 2
    labels[0] = 0
    return Domain(labels=labels, affine=np.diag([1.0, 1.0, 2.0, 1.0]), media=MEDIA)


def simulated(domain=None, **settings):
    source = optics.Pencil(position_mm=(12, 12, 0), direction=(0, 0, 1))
    chosen = light.LightSettings(**{"photons": 4000, "halves": True, **settings})
    return light.simulate(domain or slab(), source, chosen, device="cpu")


@pytest.fixture(scope="module")
def result():
    return simulated()


@pytest.fixture(scope="module")
def clean(result):
    return workflows.clean_fluence(result, device="cpu")


def test_it_is_the_denoiser_with_all_that_the_run_knows(result, clean):
    domain = result.domain
    guide = diffusion_guide(domain, result.source, result.settings, device="cpu")
    expected = denoise.denoise_fluence(
        *result.half_fluences[..., 0], labels=domain.labels, guide=guide, mask=domain.labels != 0,
        voxel_size_mm=(1, 1, 2), device="cpu",
    )  # fmt: skip
    np.testing.assert_array_equal(clean.image, expected.image)
    np.testing.assert_array_equal(clean.noise, expected.noise)
    assert clean.snr_gain_db > 3
    np.testing.assert_array_equal(clean.image[0], 0)


def test_the_script_of_the_docs_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "start" / "from_a_script.md"
    scripts = [part.split("```")[0] for part in page.read_text("utf-8").split("```python\n")[1:]]
    (script,) = (each for each in scripts if "workflows" in each)
    exec(script.replace("1_000_000", "2_000"), {})
    names = [line.split(" 0")[0].rsplit(" ", 2)[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["scalp", "skull", "CSF", "gray matter", "white matter"]


def test_the_guide_is_solved_once_and_kept_in_files(result, clean, tmp_path, monkeypatch):
    guided = with_guide(result, device="cpu")
    assert with_guide(guided) is guided
    for name, write in (("r.npz", light.io.save_result), ("f.nii", light.io.write_fluence)):
        write(tmp_path / name, guided)
    monkeypatch.setattr("napari_gpubio.light.guide.diffusion_guide", None)
    loaded = light.io.load_result(tmp_path / "r.npz")
    np.testing.assert_array_equal(workflows.clean_fluence(loaded, device="cpu").image, clean.image)
    np.testing.assert_array_equal(denoise.open_volume(tmp_path / "f_guide.nii.gz").array, guided.guide)


def test_it_is_nearer_to_many_photons(result, clean):
    """They are fifteen times as many, with a quarter of the noise."""
    truth = simulated(photons=60_000, seed=9, halves=False).fluence
    there = truth > 1e-4 * truth.max()
    before, after = (np.median(np.abs(f[there] / truth[there] - 1)) for f in (result.fluence, clean.image))
    assert after < 0.5 * before


def test_without_halves_the_standard_error_stands_for_them():
    result = simulated(halves=False)
    cleaned = workflows.clean_fluence(result, device="cpu")
    assert "split in two" in " ".join(cleaned.notes)


def test_all_time_gates_are_cleaned_together():
    result = simulated(time_gates_ns=(0.0, 0.1, 5.0))
    cleaned = workflows.clean_fluence(result, device="cpu")
    assert cleaned.image.shape == result.domain.shape
    assert cleaned.image.sum() == pytest.approx(result.fluence.sum(), rel=0.02)


def test_fluence_is_not_averaged_where_the_index_steps(result):
    assert workflows.fluence.refractive_index(result.domain) is None
    media = (MEDIA[0], dataclasses.replace(MEDIA[1], n=1.6))
    index = workflows.fluence.refractive_index(dataclasses.replace(result.domain, media=media))
    np.testing.assert_allclose([index[5, 5, 0], index[5, 5, 19]], [1.37, 1.6], rtol=1e-6)


def test_the_verb_gives_it_in_a_unit_with_its_meaning(result, clean, tmp_path, capsys):
    light.io.save_result(tmp_path / "run.npz", result)
    unit = ["--unit", "mW/mm²", "--factor", "2.5"]
    files = ["--out", str(tmp_path / "clean.nii.gz"), "--noise-out", str(tmp_path / "noise.nii.gz")]
    assert main(["clean-fluence", str(tmp_path / "run.npz"), *unit, *files, "--device", "cpu"]) == 0
    assert "gain of signal / noise" in capsys.readouterr().out
    made, noise = open_volume(tmp_path / "clean.nii.gz"), open_volume(tmp_path / "noise.nii.gz")
    assert made.quantity == Quantity("fluence rate", "mW/mm²", "linear", "cleaned: light, 4,000 photons")
    np.testing.assert_array_equal(made.array, np.float32(2.5) * clean.image)
    np.testing.assert_array_equal(noise.array, np.float32(2.5) * clean.noise)
    assert "error" in noise.quantity.name


def test_the_dose_of_each_region_is_that_of_its_voxels(result, clean):
    found = workflows.dose_by_region(result, clean.image, unit=fluence_units(power_mw=2.5)[-1], device="cpu")
    assert [curve.name for curve in found] == ["top", "bottom"]
    for curve, label in zip(found, (1, 2), strict=True):
        voxels = 2.5 * clean.image[result.domain.labels == label].astype(np.float64)
        assert curve.unit == "mW/mm²"
        assert curve.mean == pytest.approx(voxels.mean(), rel=1e-3)
    plain = workflows.dose_by_region(result, device="cpu")
    assert plain["top"].mean == pytest.approx(result.fluence[result.domain.labels == 1].mean(dtype=float), rel=1e-3)


def test_a_fluence_of_another_grid_is_refused(result):
    with pytest.raises(InvalidInput, match=r"\(3, 3, 3\).*\(24, 24, 20\)"):
        workflows.dose_by_region(result, np.zeros((3, 3, 3)), device="cpu")


def test_histograms_agree_with_the_table_of_the_light_panel(result):
    """Volume, mean, highest and volume above a threshold of each label, with voxels that no photon reached."""
    threshold = 1e-4
    curves = workflows.dose_by_region(result, device="cpu")
    table = label_fluence(result, threshold)
    for label, numbers in table.items():
        curve = curves[result.domain.medium(label).name or f"label {label}"]
        assert 1000 * curve.volume_cc == pytest.approx(numbers.volume_mm3)
        assert curve.mean == pytest.approx(numbers.mean.value, rel=1e-3)
        assert curve.largest == pytest.approx(numbers.highest.value, rel=1e-6)
        values = result.fluence[result.domain.labels == label]
        assert curve.zero_percent == pytest.approx(100 * np.mean(values == 0))
        bounds = [1000 * curve.volume_at(threshold * factor) for factor in (1 + 1 / 64, 1 - 1 / 64)]
        assert bounds[0] - 1e-9 <= numbers.above_mm3 <= bounds[1] + 1e-9


def test_what_rounding_leaves_below_zero_is_no_light_so_that_regions_keep_theirs():
    head = optics.phantom.load_head_phantom()
    corner = (0, 31, 23)
    part = tuple(slice(start, start + 32) for start in corner)
    affine = head.affine.copy()
    affine[:3, 3] = (head.affine @ [*corner, 1])[:3]
    domain = Domain(labels=np.ascontiguousarray(head.labels[part]), affine=affine, media=head.media)
    source = optics.Pencil(position_mm=(-75, -18, 8), direction=(1, 0, 0))
    few = light.simulate(domain, source, light.LightSettings(photons=500, halves=True), device="cpu")
    image = workflows.clean_fluence(few, device="cpu").image
    assert image.min() >= 0
    scalp = workflows.dose_by_region(few, image, device="cpu")["scalp"]
    assert scalp.mean == pytest.approx(image[domain.labels == 1].mean(dtype=float), rel=1e-6)


@pytest.mark.long  # a truth takes many photons
def test_the_gain_of_few_photons_is_near_that_against_the_truth():
    """A few dim voxels, whose error halves tell hundreds of times too large, do not outweigh all others."""
    head, source = optics.phantom.load_head_phantom(), optics.Pencil(position_mm=(0, 0, 90), direction=(0, 0, -1))
    few, many = (
        light.simulate(head, source, light.LightSettings(photons=photons, seed=seed, halves=True), device="cpu")
        for photons, seed in ((1000, 1), (50_000, 99))
    )
    found, truth = workflows.clean_fluence(few, device="cpu"), many.fluence.squeeze()
    there = (found.image > found.raw_noise) & (found.raw_noise > 0) & (truth > 0)
    before, after = (
        float(((x - truth)[there] ** 2 / truth[there]).sum()) for x in (few.fluence.squeeze(), found.image)
    )
    assert 0.4 < found.photon_multiplier / (before / after) < 1.3
