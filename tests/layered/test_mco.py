"""MCML's output files: a file by hand in MCML's layout, CONV's way of reading, and MCML's scaling of angles."""

import dataclasses
import re

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.io.mco import BLOCKS, angular_ratio, read_mco, write_mco
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.run import simulate
from napari_gpubio.layered.settings import LayeredSettings, angle_centers, ring_area_mm2, solid_angle_sr
from napari_gpubio.optics.model import Layer

# What the formats %G, %-14.6G, %12.4G, %12.4E of MCML 1.2.2 write for nz = 3, nr = 2, na = 2 and two layers.
BY_HAND = """\
A1 \t# Version number of the file format.

####
# Data categories include:~
# InParm, RAT,~
# A_l, A_z, Rd_r, Rd_a, Tt_r, Tt_a,~
# A_rz, Rd_ra, Tt_ra~
####

# User time:  1488.13 sec =     0.41 hr.   Simulation time of this run.

InParm \t\t\t# Input parameters. cm is used.
hand.mco \tA\t\t# output file name, ASCII.
100000 \t\t\t# No. of photons
0.002\t0.01\t\t# dz, dr [cm]
3\t2\t2\t# No. of dz, dr, da.

2\t\t\t\t\t# Number of layers
#n\tmua\tmus\tg\td\t# One line for each layer
1\t\t\t\t\t# n for medium above
1.53\t0.2\t1000\t0.9\t0.002\t# layer 1
1.44\t0.3\t150\t0.8\t1E+08\t# layer 2
1\t\t\t\t\t# n for medium below

RAT #Reflectance, absorption, transmission.~
0.0438845      \t#Specular reflectance [-]
0.5625         \t#Diffuse reflectance [-]
0.3903         \t#Absorbed fraction [-]
0.003264       \t#Transmittance [-]

A_l #Absorption as a function of layer. [-]
    0.002528
      0.3878

A_z #A[0], [1],..A[nz-1]. [1/cm]
  1.2642E+00
  7.3796E-01
  1.9315E+02

Rd_r #Rd[0], [1],..Rd[nr-1]. [1/cm2]
  3.0924E+01
  1.0071E+01

Rd_a #Rd[0], [1],..Rd[na-1]. [sr-1]
  9.0000E-02
  8.3967E-02

Tt_r #Tt[0], [1],..Tt[nr-1]. [1/cm2]
  5.8942E-04
  0.0000E+00

Tt_a #Tt[0], [1],..Tt[na-1]. [sr-1]
  1.3826E-03
  1.0000E-12

# A[r][z]. [1/cm3]
# A[0][0], [0][1],..[0][nz-1]
# A[1][0], [1][1],..[1][nz-1]
# ...
# A[nr-1][0], [nr-1][1],..[nr-1][nz-1]
A_rz
  3.2948E+03   3.0386E+03   2.5033E+03   1.8514E+03   1.2758E+03~
  8.5363E+02~
# Rd[r][angle]. [1/(cm2sr)].
# Rd[0][0], [0][1],..[0][na-1]
# Rd[1][0], [1][1],..[1][na-1]
# ...
# Rd[nr-1][0], [nr-1][1],..[nr-1][na-1]
Rd_ra
  1.0000E+00   2.0000E+00   3.0000E+00   4.0000E+00~
# Tt[r][angle]. [1/(cm2sr)].
# Tt[0][0], [0][1],..[0][na-1]
# Tt[1][0], [1][1],..[1][na-1]
# ...
# Tt[nr-1][0], [nr-1][1],..[nr-1][na-1]
Tt_ra
  5.0000E+00   6.0000E+00   7.0000E+00   8.0000E+00~
""".replace("~", " ")  # at the end of a line
GPU_MCML_TIME = "# User time: 1488.13 sec\n"
SLAB = LayeredMedium(
    layers=(
        Layer(n=1.4, mua_per_mm=0.5, mus_per_mm=5, g=0.75, thickness_mm=0.25),
        Layer(n=1.4, mua_per_mm=0.1, mus_per_mm=5, g=0.5, thickness_mm=0.3),
    )
)
GRID = LayeredSettings(
    photons=20_000, seed=5, dr_mm=0.1, dz_mm=0.05, radial_bins=6, depth_bins=11, angle_bins=5, batches=4
)
NAMES = [block.name for block in BLOCKS]


@pytest.fixture(scope="module")
def result():
    return simulate(SLAB, GRID, device="cpu")


def write(folder, text, name="hand.mco"):
    (folder / name).write_text(text, newline="\n")
    return folder / name


def block(path, name):
    """Numbers of a block of a file, in MCML's units: the lines after its name that begin with a number."""
    lines = re.search(rf"^{name}\b.*\n((?: *\d.*\n)+)", path.read_text(encoding="ascii"), re.MULTILINE)[1]
    return np.array([float(word) for line in lines.splitlines() for word in line.partition("#")[0].split()])


# -- MCML's own files -------------------------------------------------------------------------------------------------


def test_a_file_by_hand(tmp_path):
    found = read_mco(write(tmp_path, BY_HAND))
    assert found.medium.layers == (
        Layer(n=1.53, mua_per_mm=0.02, mus_per_mm=100, g=0.9, thickness_mm=0.02),
        Layer(n=1.44, mua_per_mm=0.03, mus_per_mm=15, g=0.8, thickness_mm=np.inf),
    )
    s = found.settings
    assert (s.dz_mm, s.dr_mm, s.depth_bins, s.radial_bins, s.angle_bins) == (0.02, 0.1, 3, 2, 2)
    assert (found.launched, found.complete, found.parameters["seconds"]) == (100_000, True, 1488.13)
    fractions = (found.diffuse_reflectance, found.absorbed, found.transmittance)
    assert (found.specular, *(part.value for part in fractions)) == (0.0438845, 0.5625, 0.3903, 0.003264)
    assert found.total == pytest.approx(1, abs=1e-4)
    assert all(np.isnan(part.error) for part in fractions)
    np.testing.assert_allclose(found.A_l.value, [0.002528, 0.3878])
    np.testing.assert_allclose(found.A_z.value, [0.12642, 0.073796, 19.315])
    np.testing.assert_allclose(found.A_rz.value, [[3.2948, 3.0386, 2.5033], [1.8514, 1.2758, 0.85363]])
    np.testing.assert_allclose(found.Rd_r.value, [0.30924, 0.10071])
    np.testing.assert_allclose(found.Tt_r.value, [5.8942e-6, 0])
    np.testing.assert_allclose(found.Rd_ra.value, [[0.01, 0.02], [0.03, 0.04]])
    np.testing.assert_allclose(found.Tt_ra.value, [[0.05, 0.06], [0.07, 0.08]])
    for name in NAMES:
        assert np.isnan(getattr(found, name).error).all()


def test_written_again_it_is_the_same_to_the_last_byte(tmp_path):
    write_mco(tmp_path / "hand.mco", read_mco(write(tmp_path, BY_HAND, "other.mco")))
    assert (tmp_path / "hand.mco").read_bytes().decode() == BY_HAND


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("A1 ", "B1 ", 1),
        lambda text: re.sub(r"# User time.*\n", GPU_MCML_TIME, text),
        lambda text: text.replace("# User time", "User time"),  # some programs forget the mark
        lambda text: re.sub(r"E([+-])(\d\d)\b", r"E\g<1>0\2", text),  # exponents of old compilers on Windows
        lambda text: text.replace("   ", "\n"),  # numbers of a map line by line
        lambda text: text + "# the end\n\n",
    ],
)
def test_the_same_in_other_clothes(tmp_path, change):
    plain = read_mco(write(tmp_path, BY_HAND, "plain.mco"))
    found = read_mco(write(tmp_path, change(BY_HAND)))
    assert dataclasses.replace(found.medium, name="") == dataclasses.replace(plain.medium, name="")
    assert (found.settings, found.diffuse_reflectance.value) == (plain.settings, plain.diffuse_reflectance.value)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(found, name).value, getattr(plain, name).value)


# -- there and back ---------------------------------------------------------------------------------------------------


def test_a_result_comes_back_to_the_digits_written(tmp_path, result):
    write_mco(tmp_path / "slab.mco", result)
    found = read_mco(tmp_path / "slab.mco")
    assert (found.medium.layers, found.settings.photons, found.launched) == (SLAB.layers, 20_000, 20_000)
    for name in NAMES:
        half_a_digit = 0.5e-3 if name == "A_l" else 0.5e-4
        np.testing.assert_allclose(getattr(found, name).value, getattr(result, name).value, rtol=half_a_digit)
    for name in ("diffuse_reflectance", "absorbed", "transmittance"):
        assert getattr(found, name).value == pytest.approx(getattr(result, name).value, rel=0.5e-5)


def test_what_is_written_is_in_the_units_of_mcml(tmp_path, result):
    path = tmp_path / "slab.mco"
    write_mco(path, result)
    assert max(map(len, path.read_bytes().split(b"\n"))) < 255  # CONV reads no more of a line
    fractions = (result.diffuse_reflectance, result.absorbed, result.transmittance)
    rat = block(path, "RAT")
    assert rat == pytest.approx([result.specular, *(part.value for part in fractions)], rel=0.5e-5)
    area_cm2 = ring_area_mm2(GRID) / 100
    assert np.sum(block(path, "A_z")) * 0.005 == pytest.approx(rat[2], rel=1e-4)
    assert np.sum(block(path, "A_rz").reshape(6, 11) * area_cm2[:, None]) * 0.005 == pytest.approx(rat[2], rel=1e-4)
    assert np.sum(block(path, "A_l")) == pytest.approx(rat[2], rel=1e-3)
    projected = area_cm2[:, None] * solid_angle_sr(GRID) * np.cos(angle_centers(GRID))
    divided_by = 2 * np.pi * np.sin(angle_centers(GRID)) * np.pi / 2 / GRID.angle_bins  # what MCML has for solid angles
    for name, total in (("Rd", rat[1]), ("Tt", rat[3])):
        assert np.sum(block(path, f"{name}_r") * area_cm2) == pytest.approx(total, rel=1e-4)
        assert np.sum(block(path, f"{name}_ra").reshape(6, 5) * projected) == pytest.approx(total, rel=1e-4)
        assert np.sum(block(path, f"{name}_a") * divided_by) == pytest.approx(total, rel=1e-4)


def test_the_solid_angle_follows_from_the_total(tmp_path, result):
    """GPU-MCML's files have the solid angle itself below Rd(a), MCML's an approximation that is 0.4 % larger here."""
    ratio = angular_ratio(GRID)
    assert ratio == pytest.approx(1 - (np.pi / 10) ** 2 / 24, rel=1e-4)
    scaled = {name: (e := getattr(result, name))._replace(value=e.value / ratio) for name in ("Rd_a", "Tt_a")}
    for written in (result, dataclasses.replace(result, **scaled)):
        write_mco(tmp_path / "a.mco", written)
        found = read_mco(tmp_path / "a.mco")
        sums = [np.sum(estimates.value * solid_angle_sr(GRID)) for estimates in (found.Rd_a, found.Tt_a)]
        assert sums == pytest.approx([result.diffuse_reflectance.value, result.transmittance.value], rel=1e-4)


def test_without_the_absorption_map(tmp_path):
    result = simulate(SLAB, dataclasses.replace(GRID, absorption="off", photons=500), device="cpu")
    write_mco(tmp_path / "a.mco", result)
    assert not block(tmp_path / "a.mco", "A_rz").any()
    assert block(tmp_path / "a.mco", "RAT")[2] == pytest.approx(result.absorbed.value, rel=1e-5)
    found = read_mco(tmp_path / "a.mco")
    assert (found.A_rz, found.A_z, found.settings.absorption) == (None, None, "off")
    np.testing.assert_allclose(found.A_l.value, result.A_l.value, rtol=1e-3)
    glass = LayeredMedium(layers=(Layer(n=1.5, thickness_mm=1.0),))  # absorbs nothing, which is another thing
    write_mco(tmp_path / "g.mco", simulate(glass, dataclasses.replace(GRID, photons=100), device="cpu"))
    found = read_mco(tmp_path / "g.mco")
    assert found.settings.has_map
    assert not found.A_rz.value.any()


def test_how_it_was_made_is_written(tmp_path, result):
    write_mco(tmp_path / "odd #name.mco", result)
    text = (tmp_path / "odd #name.mco").read_text(encoding="ascii")
    assert re.search(r"^# User time: .* sec = .* hr\. .*napari-gpubio \S+, seed 5, cpu", text, re.MULTILINE)
    assert "odd__name.mco \tA\t" in text


# -- bad input --------------------------------------------------------------------------------------------------------


def line_of(text, beginning):
    return next(number for number, line in enumerate(text.split("\n"), 1) if line.startswith(beginning))


@pytest.mark.parametrize(
    ("old", "new", "at", "reason"),
    [
        ("A1 ", "1.0 ", "1.0", "MCML's output files begin with the version of their format, A1"),
        ("InParm \t", "Parameters \t", "  5.0000E+00", "the file ends where InParm should follow"),
        ("RAT #", "TAR #", "  5.0000E+00", "the file ends where RAT should follow"),
        ("0.3903  ", "lots", "lots", "'lots' is not a number; absorbed fraction expected here"),
        ("  7.3796E-01\n", "", "Rd_r #", "numbers of A_z, which has 2 of 3 numbers so far, expected here"),
        ("  7.3796E-01\n", "  1\n  2\n", "  1.9315E+02", "one of the blocks Rd_r, Rd_a, Tt_r"),
        ("  8.5363E+02", "  1 2", "  1 2", "A_rz has more than its 6 numbers"),
        ("  8.5363E+02", "  oops", "  oops", "numbers of A_rz, which has 5 of 6 numbers so far, expected here"),
        ("Tt_r #", "Rd_r #", "Rd_r #Tt", "one of the blocks Tt_r, Tt_a, A_rz, Rd_ra, Tt_ra must begin here"),
        ("  3.0000E+00   4.0000E+00", "", "Tt_ra", "numbers of Rd_ra, which has 2 of 4 numbers so far"),
        ("1000\t0.9", "1000\t1", "1.53", "g is 1 in a layer that scatters"),
        ("100000 ", "0 ", "0 ", "photons is 0; it must be at least 1"),
        ("0.5625", "0.\x005625", "0.\x00", "this is not text"),
    ],
)
def test_what_is_wrong_names_its_line(tmp_path, old, new, at, reason):
    text = BY_HAND.replace(old, new, 1)
    with pytest.raises(InvalidInput) as caught:
        read_mco(write(tmp_path, text))
    assert str(caught.value).startswith(f"hand.mco, line {line_of(text, at)}: ")
    assert reason in str(caught.value)


def test_a_file_that_ends_too_early(tmp_path):
    for at in range(0, len(BY_HAND), 97):
        path = write(tmp_path, BY_HAND[:at] or "#")
        with pytest.raises(InvalidInput, match=r"hand\.mco, line \d+: "):
            read_mco(path)
    with pytest.raises(InvalidInput, match="the file ends without Tt_ra"):
        read_mco(write(tmp_path, BY_HAND.partition("Tt_ra\n")[0]))
