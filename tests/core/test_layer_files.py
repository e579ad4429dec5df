"""Files of layers: what the numbers mean, their errors and the names of labels come back, by any way of saving."""

import errno
import json

import nibabel as nib
import numpy as np
import pytest
from napari.utils.colormaps import Colormap

from napari_gpubio.core import volumes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import (
    get_reader,
    read_described,
    read_layers,
    sidecar_path,
    write_described_steps,
    write_image,
)
from napari_gpubio.core.napari_io import KEY, carried, grid_of, volume_layer, volume_of
from napari_gpubio.core.quantity import Quantity, guide_of, halves_of, quantity_metadata, quantity_of, standard_error_of
from napari_gpubio.core.steps import drive
from napari_gpubio.core.world_aligned import WorldAligned
from napari_gpubio.diffusion.napari_io import read_layers as read_nifti_layers
from tests.volume_samples import AFFINES, VOLUME, built

LOG_FLUENCE = Quantity("fluence", "1/mm2", "log10", "light, 1,000 photons")
STRAIGHT = AFFINES["anisotropic"]
ERROR, HALVES = (0.1 * VOLUME).astype(np.float32), np.stack([VOLUME, VOLUME + 2]).astype(np.float32)
GUIDE = (VOLUME + 1.5).astype(np.float32)
EVERY_FORMAT = pytest.mark.parametrize("name", ["a.nii.gz", "a.nii", "a.npz"])


def fluence(affine=STRAIGHT, **held):
    values = VOLUME.astype(np.float32)
    values[0, 0, 0] = np.nan
    of_quantity = quantity_metadata(LOG_FLUENCE, standard_error=ERROR, halves=HALVES, guide=GUIDE)
    limits = {"contrast_limits": (-3.0, 2.0), "colormap": "inferno"}
    return built(volume_layer(values, affine, "log fluence", metadata={**of_quantity, **held}, **limits))


def saved_and_opened(layer, path):
    data, attributes, _ = layer.as_layer_data_tuple()
    assert write_image(str(path), data, attributes) == [str(path)]
    read = read_layers if path.suffix == ".npz" else read_nifti_layers
    (opened,) = read(str(path))
    return built(opened)


@EVERY_FORMAT
@pytest.mark.parametrize("affine", AFFINES.values(), ids=list(AFFINES))
def test_a_fluence_comes_back_with_all_it_says(tmp_path, name, affine):
    if affine is AFFINES["sheared"] and not name.endswith("npz"):
        affine = STRAIGHT
    layer = fluence(affine, parameters={"photons": 1000})
    opened = saved_and_opened(layer, tmp_path / name)
    np.testing.assert_array_equal(volume_of(opened), volume_of(layer))
    np.testing.assert_allclose(grid_of(opened)[0], affine, atol=1e-5)
    assert quantity_of(opened) == LOG_FLUENCE
    np.testing.assert_array_equal(standard_error_of(opened), ERROR)
    np.testing.assert_array_equal(halves_of(opened), HALVES)
    np.testing.assert_array_equal(guide_of(opened), GUIDE)
    assert carried(opened, "parameters") == {"photons": 1000}
    assert tuple(opened.contrast_limits) == (-3.0, 2.0)
    assert opened.colormap.name == "inferno"
    assert isinstance(opened.data, WorldAligned) == isinstance(layer.data, WorldAligned)


@EVERY_FORMAT
def test_labels_come_back_as_labels_with_their_names(tmp_path, name):
    labels = (VOLUME % 3).astype(np.uint8)
    held = {"structures": {1: "scalp", 2: "skull"}, "media": [{"label": 1, "name": "scalp", "mua_per_mm": 0.02}]}
    colors = {None: "magenta", 0: "transparent", 1: "#b5795a"}
    layer = built(volume_layer(labels, STRAIGHT, "head", kind="labels", metadata=held, colormap=colors))
    opened = saved_and_opened(layer, tmp_path / name)
    assert type(opened).__name__ == "Labels"
    np.testing.assert_array_equal(volume_of(opened), labels)
    assert carried(opened, "structures") == held["structures"]
    assert carried(opened, "media") == held["media"]
    for label in (0, 1, 2):
        np.testing.assert_allclose(opened.colormap.map(label), layer.colormap.map(label), atol=1e-4)


@EVERY_FORMAT
def test_how_a_layer_lies_over_others_comes_back(tmp_path, name):
    """A fluence that fades into the labels below, a line that is drawn by steps, and labels that let light through."""
    colors = [(0.0, 0.0, 0.0, 0.0), (0.5, 0.1, 0.2, 1.0), (1.0, 1.0, 1.0, 1.0)]
    fading = Colormap(colors, name="glow, fading", controls=[0.0, 0.3, 1.0])
    line = Colormap(["red", "blue"], name="line", controls=[0.0, 0.4, 1.0], interpolation="zero")
    for colormap in (fading, line):
        layer = fluence()
        layer.colormap, layer.opacity, layer.blending = colormap, 0.85, "translucent_no_depth"
        opened = saved_and_opened(layer, tmp_path / name)
        assert (opened.opacity, opened.blending) == (0.85, "translucent_no_depth")
        assert opened.colormap.name == colormap.name
        places = np.linspace(0, 1, 21)
        np.testing.assert_allclose(opened.colormap.map(places), colormap.map(places), atol=1e-4)
    labels = built(volume_layer((VOLUME % 3).astype(np.uint8), STRAIGHT, "head", kind="labels", opacity=0.3))
    opened = saved_and_opened(labels, tmp_path / name)
    assert opened.opacity == pytest.approx(0.3)


@pytest.mark.parametrize(
    "change",
    [
        {"colors": "red"},
        {"colors": [[0, 0, 0, 1]], "controls": [0]},
        {"colors": [[0, 0, 0, 1], [2, 0, 0, 1]]},
        {"controls": [0, 0.5]},
        {"controls": [1, 0]},
        {"interpolation": "cubic"},
        {"name": 3},
        {"more": 1},
    ],
)
def test_a_colormap_that_is_none_is_left_out(tmp_path, change):
    path = tmp_path / "a.nii.gz"
    layer = fluence()
    layer.colormap = Colormap(["red", "blue"], name="own")
    write_image(str(path), *layer.as_layer_data_tuple()[:2])
    text = json.loads(sidecar_path(path).read_text(encoding="utf-8"))
    text["napari_gpubio"]["display"]["colormap"] |= change
    text["napari_gpubio"]["display"] |= {"opacity": "high", "blending": "sideways"}
    sidecar_path(path).write_text(json.dumps(text), encoding="utf-8")
    keywords = read_described(path, VOLUME.shape)
    assert not keywords.keys() & {"colormap", "opacity", "blending"}
    assert keywords["contrast_limits"] == (-3.0, 2.0)


def test_what_other_programs_wrote_beside_a_file_stays_and_is_not_ours(tmp_path):
    path = tmp_path / "t1.nii.gz"
    nib.save(nib.Nifti1Image(VOLUME.astype(np.float32), STRAIGHT), path)
    sidecar_path(path).write_text(json.dumps({"EchoTime": 0.003, "quantity": "T1"}), encoding="utf-8")
    (opened,) = read_nifti_layers(str(path))
    assert quantity_of(built(opened)) is None
    data, attributes, _ = fluence().as_layer_data_tuple()
    write_image(str(path), data, attributes)
    assert json.loads(sidecar_path(path).read_text(encoding="utf-8"))["EchoTime"] == 0.003
    assert quantity_of(built(read_nifti_layers(str(path))[0])) == LOG_FLUENCE


def test_a_file_that_is_written_over_loses_what_the_old_one_said(tmp_path):
    path = tmp_path / "a.nii.gz"
    saved_and_opened(fluence(), path)
    plain = built(volume_layer(VOLUME.astype(np.float32), STRAIGHT, "plain"))
    opened = saved_and_opened(plain, path)
    assert quantity_of(opened) is None
    assert standard_error_of(opened) is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.json", "a.nii.gz"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"napari_gpubio": 3}', '{"napari_gpubio": {"quantity": {"name": "x", "unit": "foo"}}}',
     '{"napari_gpubio": {"quantity": "fluence", "structures": {"a": 1}, "display": {"contrast_limits": ["x"]}}}',
     '{"napari_gpubio": {"colors": {"None": [1, 2], "1": "red"}, "kind": "image", "display": 3}}',
     '{"napari_gpubio": {"standard_error": "../../other.nii.gz", "half_1": "missing.nii.gz"}}'],
)  # fmt: skip
def test_a_damaged_sidecar_says_nothing_and_the_volume_opens(tmp_path, text):
    path = tmp_path / "a.nii.gz"
    nib.save(nib.Nifti1Image(VOLUME.astype(np.float32), STRAIGHT), path)
    sidecar_path(path).write_text(text, encoding="utf-8")
    layer = built(read_nifti_layers(str(path))[0])
    np.testing.assert_array_equal(volume_of(layer), VOLUME)
    assert quantity_of(layer) is None
    assert standard_error_of(layer) is None


@pytest.mark.parametrize("name", ["a.nii.gz", "a.nii"])
def test_volumes_are_written_block_by_block_as_nibabel_writes_them(tmp_path, monkeypatch, name):
    monkeypatch.setattr(volumes, "_BLOCK", 40)
    values, path, steps = VOLUME.astype(np.float32), tmp_path / name, []
    drive(write_described_steps(path, values, STRAIGHT, {}, {"half_1": values + 1}), steps.append)
    files = {f"MB of {file} saved": file for file in ("a_half_1.nii.gz", name)}
    assert list(dict.fromkeys(step.message for step in steps)) == list(files)
    assert len(steps) >= 2 * (values.nbytes // 40 - 1)
    for file in files.values():
        image = nib.load(tmp_path / file)
        nib.save(nib.Nifti1Image(image.dataobj.get_unscaled(), None, image.header), tmp_path / f"nibabel_{file}")
        assert (tmp_path / file).read_bytes() == (tmp_path / f"nibabel_{file}").read_bytes()


@pytest.mark.parametrize("ended", ["closed", "failed"])
def test_a_save_that_does_not_end_leaves_the_older_files(tmp_path, monkeypatch, ended):
    monkeypatch.setattr(volumes, "_BLOCK", 40)
    values, path = VOLUME.astype(np.float32), tmp_path / "a.nii.gz"
    drive(write_described_steps(path, values, STRAIGHT, {}, {"half_1": values}))
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    saving = write_described_steps(path, values + 1, STRAIGHT, {}, {"half_1": values + 1})
    while "a.nii.gz" not in next(saving).message:
        assert len(list(tmp_path.iterdir())) > len(before)
    if ended == "closed":
        saving.close()
    else:
        with pytest.raises(InvalidInput, match=r"^a\.nii\.gz could not be written \(No space"):
            saving.throw(OSError(errno.ENOSPC, "No space left"))
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_error_of_another_shape_is_left_out(tmp_path):
    path = tmp_path / "a.nii.gz"
    saved_and_opened(fluence(), path)
    nib.save(nib.Nifti1Image(np.zeros((2, 2, 2), np.float32), STRAIGHT), tmp_path / "a_standard_error.nii.gz")
    layer = built(read_nifti_layers(str(path))[0])
    assert standard_error_of(layer) is None
    assert halves_of(layer) is not None


def test_an_image_of_another_program_is_saved_without_a_meaning(tmp_path):
    image = built((np.zeros((3, 4, 5), np.float32), {"name": "theirs"}, "image"))
    assert quantity_of(saved_and_opened(image, tmp_path / "a.nii.gz")) is None
    assert KEY in json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))


def test_archives_that_are_no_volumes_are_left_to_other_readers(tmp_path):
    np.savez(tmp_path / "result.npz", other=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("result.npz", "text.npz", "missing.npz"):
        assert get_reader(str(tmp_path / name)) is None
    np.savez(tmp_path / "bad.npz", volume=np.zeros((2, 2, 2)), affine=np.eye(4), about=np.array("{"))
    assert get_reader(str(tmp_path / "bad.npz")) is read_layers
    with pytest.raises(InvalidInput, match=r"bad\.npz is not valid JSON"):
        read_layers(str(tmp_path / "bad.npz"))


@pytest.mark.parametrize("affine", [np.zeros((4, 4)), np.eye(4) * 1e30, np.full((4, 4), "x"), np.eye(3)])
def test_an_archive_with_a_damaged_affine_is_refused(tmp_path, affine):
    np.savez(tmp_path / "a.npz", volume=np.zeros((2, 3, 4)), affine=affine, about=np.array("{}"))
    with pytest.raises(InvalidInput, match=r"^a\.npz: the affine"):
        read_layers(str(tmp_path / "a.npz"))


def test_labels_that_are_no_numbers_have_no_names_and_colors(tmp_path):
    odd = {"9" * 5000: "far", "-1": "below", "1.5": "between", "x": "word", "2": "here"}
    about = {
        "kind": "labels",
        "structures": odd,
        "colors": {"None": [0, 0, 0, 1], **{key: [1, 0, 0, 1] for key in odd}},
    }
    labels = np.ones((2, 3, 4), np.uint8)
    np.savez(tmp_path / "a.npz", volume=labels, affine=np.eye(4), about=np.array(json.dumps(about)))
    ((_, keywords, kind),) = read_layers(str(tmp_path / "a.npz"))
    assert kind == "labels"
    assert keywords["metadata"][KEY]["structures"] == {2: "here"}
    assert set(keywords["colormap"]) == {None, 2}


@pytest.mark.parametrize("volume", [np.zeros(3), np.zeros((2, 2)), np.zeros((1, 2, 3, 4, 5)), np.full((2, 3, 4), "x")])
def test_an_archive_of_no_volume_is_refused(tmp_path, volume):
    np.savez(tmp_path / "a.npz", volume=volume, affine=np.eye(4), about=np.array("{}"))
    with pytest.raises(InvalidInput, match=r"^a\.npz holds .* of shape \("):
        read_layers(str(tmp_path / "a.npz"))


@pytest.mark.parametrize("limits", [["a", 1], [None, None], [[1], 2], [0, float("inf")], [2, 1], 5])
def test_limits_that_are_no_numbers_are_left_out(tmp_path, limits):
    about = json.dumps({"kind": "image", "display": {"contrast_limits": limits, "colormap": "turbo"}})
    np.savez(tmp_path / "a.npz", volume=np.zeros((2, 3, 4)), affine=np.eye(4), about=np.array(about))
    ((_, keywords, _),) = read_layers(str(tmp_path / "a.npz"))
    assert "contrast_limits" not in keywords
    assert keywords["colormap"] == "turbo"
