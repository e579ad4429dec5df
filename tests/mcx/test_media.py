"""Properties voxel by voxel in the formats of MCX, from the bytes of a file and from an array in the JSON."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.jdata import encode_array
from tests.mcx.samples import case, medium, without, written

SHAPE = (3, 4, 5)
UNIT = 0.5
RANDOM = np.random.default_rng(12)
MUA, MUS, G, N = (RANDOM.uniform(low, high, SHAPE).astype(np.float32) for low, high in (
    (0.01, 1), (1, 9), (0, 0.95), (1, 1.6)
))  # fmt: skip
MEDIA = [medium(0, 0, 1, 1), medium(0.01, 1.0, 0.2, 1.3), medium(0.51, 9.0, 0.9, 1.5)]
OUTSIDE = (0, 1, 2)


def components(form: str) -> np.ndarray:
    """Values of each voxel as MCX has them, shape (3, 4, 5, count), one voxel outside."""
    if form in ("mua_float", "muamus_float", "asgn_float"):
        values = np.stack([MUA, MUS, G, N][: {"mua_float": 1, "muamus_float": 2, "asgn_float": 4}[form]], axis=-1)
        values[OUTSIDE] = np.nan
        return values
    if form == "muamus_half":
        values = (np.stack([MUA, MUS], axis=-1) * UNIT).astype("<f2")  # per voxel
    elif form == "muamus_short":
        values = np.stack([MUA * 60000, MUS * 7000], axis=-1).astype("<u2")
    elif form == "asgn_byte":
        values = np.stack([MUA * 255, MUS * 28, G * 255, (N - 1) * 200], axis=-1).astype("u1")
    values[OUTSIDE] = 0
    return values


def expected(form: str) -> dict[str, np.ndarray]:
    values = components(form).astype(np.float64)
    names = ("mua_per_mm", "mus_per_mm", "g", "n")[: values.shape[-1]]
    if form == "muamus_half":
        values /= UNIT
    elif form in ("muamus_short", "asgn_byte"):
        low, high = (np.array([row[key] for key in ("mua", "mus", "g", "n")][: len(names)]) for row in MEDIA[1:])
        full = np.array([65535, 65535] if form == "muamus_short" else [255, 255, 255, 127])
        values = low + values / full * (high - low)
    return {name: values[..., i] for i, name in enumerate(names)}


FORMS = ("mua_float", "muamus_float", "asgn_float", "muamus_half", "muamus_short", "asgn_byte")
FILES = ("raw", "array", "first axis", "jnii")
PACKED = ("muamus_half", "muamus_short", "asgn_byte")  # into a word of 4 bytes


@pytest.mark.parametrize(("form", "where"), [
    *((form, where) for form in FORMS for where in FILES), *((form, "packed") for form in PACKED)
])  # fmt: skip
def test_properties_voxel_by_voxel(tmp_path, read, form, where):
    values = components(form)
    root = case(Domain={"MediaFormat": form, "Media": MEDIA, "LengthUnit": UNIT, "Dim": list(SHAPE)})
    if where in ("raw", "jnii"):
        root = without(root, "Shapes")
        root["Domain"]["VolumeFile"] = f"v.{'bin' if where == 'raw' else where}"
        (tmp_path / "v.bin").write_bytes(np.moveaxis(values, -1, 0).tobytes(order="F"))
        written(tmp_path, {"NIFTIData": encode_array(values)}, "v.jnii")
    elif where == "packed":
        root["Shapes"] = encode_array(np.ascontiguousarray(values).view(np.uint32)[..., 0])
    else:
        root["Shapes"] = encode_array(values if where == "array" else np.moveaxis(values, -1, 0))
    found = read(root).domain
    inside = np.ones(SHAPE, bool)
    inside[OUTSIDE] = False
    np.testing.assert_array_equal(found.labels, inside)
    own = expected(form)
    for name in ("mua_per_mm", "mus_per_mm", "g", "n"):
        assert (getattr(found, name) is None) == (name not in own)
        if name in own:
            np.testing.assert_allclose(getattr(found, name)[inside], own[name][inside], rtol=1e-5)
    assert found.voxel_sizes_mm.tolist() == [UNIT] * 3
    assert [m.label for m in found.media] == [1]


def test_a_property_of_its_own_beside_the_label(tmp_path, read):
    """Low word: label, and in its highest bits which property the high word has, in half precision."""
    labels = RANDOM.integers(0, 3, SHAPE).astype(np.uint16)
    which = RANDOM.integers(0, 4, SHAPE).astype(np.uint16)
    own = np.choose(which, [MUA * UNIT, MUS * UNIT, G, N]).astype("<f2")
    low = labels | (which << 14)
    values = np.stack([low, own.view("<u2")], axis=-1).astype("<u2")
    values[labels == 0] = 0
    (tmp_path / "v.bin").write_bytes(np.moveaxis(values, -1, 0).tobytes(order="F"))
    domain = {"MediaFormat": "labelplus", "Media": MEDIA, "LengthUnit": UNIT, "Dim": list(SHAPE), "VolumeFile": "v.bin"}
    found = read(without(case(Domain=domain), "Shapes")).domain
    np.testing.assert_array_equal(found.labels, labels)
    keys = {"mua_per_mm": ("mua", UNIT), "mus_per_mm": ("mus", UNIT), "g": ("g", 1.0), "n": ("n", 1.0)}
    for index, (name, (key, scale)) in enumerate(keys.items()):
        of_label = np.choose(labels, [0, MEDIA[1][key], MEDIA[2][key]])
        values = np.where(which == index, own.astype(np.float64) / scale, of_label)
        np.testing.assert_allclose(getattr(found, name)[labels > 0], values[labels > 0], rtol=1e-6)


def test_what_mcx_takes_otherwise_is_noted(read):
    values = components("asgn_float")
    values[0, 0, 0, 2] = -0.5
    root = case(Domain={"MediaFormat": "asgn_float"}, Shapes=encode_array(values))
    found = read(root)
    assert found.domain.g[0, 0, 0] == -0.5
    assert any("magnitude" in note for note in found.notes)
    root = case(Domain={"MediaFormat": "asgn_byte", "Media": MEDIA}, Shapes=encode_array(components("asgn_byte")))
    assert any("refracted wherever n changes" in note for note in read(root).notes)


@pytest.mark.parametrize(("domain", "values", "words"), [
    ({"MediaFormat": "asgn_byte", "Media": MEDIA[:2]}, components("asgn_byte"), "between media 1 and 2; give both"),
    ({"MediaFormat": "asgn_float"}, components("muamus_float"), r"asgn_float needs float32, \(x, y, z, 4\)"),
    ({"MediaFormat": "asgn_float"}, np.full((*SHAPE, 4), 0.5, np.float32), "n has the value 0.5 in tissue"),
    ({"MediaFormat": "asgn_float"}, np.full((*SHAPE, 4), 1.5, np.float32), "g has the value 1.5 in tissue"),
    ({"MediaFormat": "labelplus"}, np.full(SHAPE, 7, np.uint32), "no optical properties for label 7"),
    ({"MediaFormat": "svmc"}, np.ones(SHAPE, np.uint64), "a plane splits in two"),
])  # fmt: skip
def test_wrong_properties(read, domain, values, words):
    with pytest.raises(InvalidInput, match=words):
        read(case(Domain=domain, Shapes=encode_array(values)))
