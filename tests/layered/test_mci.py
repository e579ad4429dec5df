"""MCML's input files: its template as the manual prints it, its grammar, and the errors of files that break it."""

import contextlib
import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.model import Layer
from tests.fuzzing import fuzzed

TEMPLATE = """\
####
# Two runs, laid out as in the manual of MCML.
####

1.0                     # file version
2\t\t\t# number of runs

### run 1
temp1.mco\tA\t\t# output filename, ASCII/Binary
10                      # No. of photons
20E-4\t20E-4            # dz, dr
10  20  30              # No. of dz, dr & da.

2                       # No. of layers
# n mua mus g d         # One line for each layer
1.0                     # n for medium above.
1.3 20 200 0.70 0.011   # layer 1: epidermis
1.4 10 200 0.90 1.0E+8  # layer 2
1.33                    # n for medium below.

### run 2
temp2.mco B
2e1
.002 20.e-4
80 81 1

1
1.0
1.4 10 200 -0.70 0.1# dermis
1.0
"""
RUN = """\
1.0
1
slab.mco A
1000
0.01 0.02
5 6 7
2
1.0
1.5 0 0 0 0.1
1.4 1 100 0.9 0.2
1.0
"""


def write(folder, text, name="in.mci"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def with_line(number, line):
    """The one-run file with a line replaced (from 1), or taken out."""
    lines = RUN.splitlines()
    lines[number - 1 : number] = [] if line is None else [line]
    return "\n".join(lines) + "\n"


# -- what is read -----------------------------------------------------------------------------------------------------


def test_the_template(tmp_path):
    first, second = read_mci(write(tmp_path, TEMPLATE))
    assert first == MciRun(
        medium=LayeredMedium(
            layers=(
                Layer(n=1.3, mua_per_mm=2.0, mus_per_mm=20.0, g=0.7, thickness_mm=0.11, name="epidermis"),
                Layer(n=1.4, mua_per_mm=1.0, mus_per_mm=20.0, g=0.9, thickness_mm=math.inf),
            ),
            n_above=1.0,
            n_below=1.33,
            name="temp1",
        ),
        settings=LayeredSettings(photons=10, dz_mm=0.02, dr_mm=0.02, depth_bins=10, radial_bins=20, angle_bins=30),
        output="temp1.mco",
    )
    assert (second.output, second.binary, second.settings.photons) == ("temp2.mco", True, 20)
    assert (second.settings.depth_bins, second.settings.radial_bins, second.settings.angle_bins) == (80, 81, 1)
    assert second.medium.layers == (Layer(n=1.4, mua_per_mm=1, mus_per_mm=20, g=-0.7, thickness_mm=1, name="dermis"),)


@pytest.mark.parametrize(
    "changed",
    [
        RUN.replace("\n", "\r\n"),
        RUN.replace("\n", "\r"),
        "\ufeff" + RUN,
        RUN.encode("utf-16"),  # as Windows programs save it
        RUN.rstrip("\n"),
        RUN + "\x1a",  # the end of a DOS text
        RUN.replace("\n", "\n\n \t\n# \xb5\n"),
        RUN.replace("\n", "\n# µa in 1/cm\n").encode("latin-1"),
        RUN.replace(" ", "\t \t"),
        RUN.replace("1000", "  1000 photons"),  # MCML passes over what follows the number
        RUN.replace("slab.mco A", "slab.mco"),
        RUN.replace("0.01 0.02", "1E-2 +2.e-2"),
    ],
)
def test_the_same_in_other_clothes(tmp_path, changed):
    assert read_mci(write(tmp_path, changed)) == read_mci(write(tmp_path, RUN, "plain.mci"))


def test_a_hundred_layers(tmp_path):
    text = RUN.replace("\n2\n", "\n100\n").replace("1.5 0 0 0 0.1\n", "1.5 1 1 0 0.1\n" * 99)
    assert len(read_mci(write(tmp_path, text))[0].medium.layers) == 100


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (with_line(1, None), 2, "'slab.mco' is not a number; the number of runs"),
        (with_line(1, "mcmli2.0"), 1, "an input file of MCML 2"),
        (with_line(1, "A1"), 1, "an output file of MCML"),
        (with_line(1, "hello"), 1, "begin with the file version"),
        (with_line(2, "0"), 2, "the number of runs is 0; it must be at least 1"),
        (with_line(2, "1.5"), 2, "1.5 is not an integer"),
        (with_line(2, "2"), 11, "the file ends where run 2 of 2, beginning with the name of its output file, should"),
        (with_line(3, None), 3, "the name of the output file of the run expected here"),
        (with_line(4, "0"), 4, "photons is 0; it must be at least 1"),
        (with_line(4, "1e400"), 4, "1e400 is not an integer"),
        (with_line(4, "many"), 4, "'many' is not a number; the number of photons of the run expected here"),
        (with_line(5, "0.01"), 5, "dz and dr (cm) of the run expected here: 2 numbers, not 1"),
        (with_line(5, "0 0.02"), 5, "dz_mm is 0 mm; it must be greater than 0"),
        (with_line(5, "0.01 -1"), 5, "dr_mm is -10 mm; it must be greater than 0"),
        (with_line(6, "5 6 7 8"), 6, "the numbers of dz, dr and da of the run expected here: 3 numbers, not 4"),
        (with_line(6, "5 0 7"), 6, "radial_bins is 0; it must be at least 1"),
        (with_line(6, "10000 10000 1"), 6, "the grid has 100,000,000 bins"),
        (with_line(7, "0"), 7, "there are 0 layers; 1 to 100 are possible"),
        (with_line(7, "101"), 7, "there are 101 layers; 1 to 100 are possible"),
        (with_line(7, "1"), 10, "the refractive index below the run expected here: 1 number, not 5"),
        (with_line(7, "3"), 11, "n, mua, mus, g and d of layer 3 of 3 expected here: 5 numbers, not 1"),
        (with_line(8, "0.5"), 8, "the refractive index above the run is 0.5; it must be at least 1"),
        (with_line(9, "1.5 0 0 0 1e8"), 9, "layer 1 of 2 is infinitely thick; only the last one may be"),
        (with_line(10, "1.4 1 100 0.9 -0.2"), 10, "thickness_mm is -2.0; it must be greater than 0"),
        (with_line(10, "1.4 -1 100 0.9 1"), 10, "mua_per_mm is -0.1 1/mm; it must be at least 0"),
        (with_line(10, "1.4 1 100 1 1"), 10, "g is 1 in a layer that scatters"),
        (with_line(10, "1.4 1 100 0,9 1"), 10, "'0,9' is not a number"),
        (with_line(10, "1.4 1 100 nan 1"), 10, "'nan' is not a number"),
        (with_line(10, "1.4 1 1_0 0.9 1"), 10, "'1_0' is not a number"),
        (with_line(10, "1.5 0 0 0 1e9"), 10, "the last layer is infinitely thick glass"),
        (with_line(11, "0"), 11, "the refractive index below the run is 0; it must be at least 1"),
        (with_line(11, None), 10, "the file ends where the refractive index below the run should follow"),
        (RUN + "# note\n1.0\n", 13, "data follows after the last run; correct the number of runs in line 2 (1)"),
        (TEMPLATE.replace("temp2", "temp1"), 22, "the output file temp1.mco is line 9's already"),
        (with_line(3, "slab\x00.mco A"), 3, "this is not text (byte 0x00)"),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)), 1, "this is not text"),
        ("# nothing\n", 1, "the file ends where the file version, 1.0, should follow"),
    ],
)
def test_what_is_wrong_names_its_line(tmp_path, text, line, reason):
    with pytest.raises(InvalidInput) as caught:
        read_mci(write(tmp_path, text))
    message = str(caught.value)
    assert message.startswith(f"in.mci, line {line}: ")
    assert reason in message
    assert len(message) < 250


def test_the_line_itself_is_shown_and_files_without_lines_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=re.escape("“1.4 1 100 1 1”")):
        read_mci(write(tmp_path, with_line(10, "1.4\t1  100 1 1 # g = 1")))
    with pytest.raises(InvalidInput, match="does not exist"):
        read_mci(tmp_path / "none.mci")
    with pytest.raises(InvalidInput, match=r"empty \(0 bytes\)"):
        read_mci(write(tmp_path, ""))


@given(junk=st.binary(max_size=60), at=st.integers(0, len(RUN)))
@fuzzed(100)
def test_junk_anywhere_gives_runs_or_a_sentence(tmp_path_factory, junk, at):
    path = tmp_path_factory.getbasetemp() / "junk.mci"
    path.write_bytes(RUN.encode()[:at] + junk + RUN.encode()[at:])
    with contextlib.suppress(InvalidInput):
        assert all(isinstance(run, MciRun) for run in read_mci(path))


# -- what is written --------------------------------------------------------------------------------------------------

sizes = st.floats(1e-6, 1e6)
layers = st.builds(
    Layer,
    n=st.floats(1, 10),
    mua_per_mm=st.floats(0, 1e6),
    mus_per_mm=st.floats(0, 1e6),
    g=st.floats(0, 0.999),
    thickness_mm=sizes,
    name=st.from_regex(r"([a-z]+( [a-z0-9]+)?)?", fullmatch=True),
)
media = st.builds(
    LayeredMedium,
    layers=st.lists(layers, min_size=1, max_size=4).map(tuple),
    n_above=st.floats(1, 3),
    n_below=st.floats(1, 3),
)
grids = st.builds(
    LayeredSettings,
    photons=st.integers(1, 1 << 32),
    dr_mm=sizes,
    dz_mm=sizes,
    radial_bins=st.integers(1, 400),
    depth_bins=st.integers(1, 400),
    angle_bins=st.integers(1, 400),
)


@pytest.mark.daily
@given(media=st.lists(media, min_size=1, max_size=3), grid=grids, binary=st.booleans())
@fuzzed(15)
def test_runs_come_back_to_the_last_digit(tmp_path_factory, media, grid, binary):
    runs = tuple(
        MciRun(medium=dataclasses.replace(medium, name=f"run{i}"), settings=grid, output=f"run{i}.mco", binary=binary)
        for i, medium in enumerate(media)
    )
    path = tmp_path_factory.getbasetemp() / "back.mci"
    write_mci(path, runs)
    assert read_mci(path) == runs


def test_what_is_written(tmp_path):
    write_mci(
        tmp_path / "out.mci", read_mci(write(tmp_path, RUN.replace("1.4 1 100 0.9 0.2", "1.4 1 12345.678 0.9 1e9")))
    )
    assert (tmp_path / "out.mci").read_text() == (
        "1.0\t\t\t\t\t# file version\n1\t\t\t\t\t# number of runs\n\n### run 1\n"
        "slab.mco \tA\t\t# output file name, ASCII.\n1000 \t\t\t# No. of photons\n0.01\t0.02\t\t# dz, dr [cm]\n"
        "5\t6\t7\t# No. of dz, dr, da.\n\n2\t\t\t\t\t# Number of layers\n"
        "#n\tmua\tmus\tg\td\t# One line for each layer\n1\t\t\t\t\t# n for medium above\n"
        "1.5\t0\t0\t0\t0.1\t# layer 1\n1.4\t1\t12345.678\t0.9\t1E+08\t# layer 2\n1\t\t\t\t\t# n for medium below\n"
    )


def test_names_of_layers_are_ascii_in_one_line(tmp_path):
    """MCML stops at other letters and reads 255 bytes at a time."""
    name = "µa\n# of " + "skin " * 100
    medium = LayeredMedium(layers=(Layer(mua_per_mm=1, name=name),))
    write_mci(tmp_path / "n.mci", [MciRun(medium=medium, settings=LayeredSettings(), output="n.mco")])
    text = (tmp_path / "n.mci").read_text(encoding="ascii")
    assert max(map(len, text.splitlines())) < 255
    (run,) = read_mci(tmp_path / "n.mci")
    assert run.medium.layers[0].name.startswith("?a # of skin skin")


GOOD = MciRun(medium=LayeredMedium(layers=(Layer(mua_per_mm=1),)), settings=LayeredSettings(), output="s.mco")


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        *(
            ([dataclasses.replace(GOOD, output=name)], f"an output file is named '{name}'")
            for name in ("two words.mco", "#1.mco", "12", "größe.mco", "")
        ),
        (
            [dataclasses.replace(GOOD, settings=LayeredSettings(depth_bins=32768))],
            "s.mco has 32,768 bins in one direction; MCML counts to 32,767",
        ),
        (
            [dataclasses.replace(GOOD, medium=LayeredMedium(layers=(Layer(g=-0.1),)))],
            "layer 1 of s.mco has g = -0.1; MCML needs g from 0 to 1",
        ),
        ([GOOD, GOOD], "two runs have the output file"),
        ([], "there are no runs"),
    ],
)
def test_what_mcml_cannot_read_is_not_written(tmp_path, runs, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        write_mci(tmp_path / "out.mci", runs)
    assert not list(tmp_path.iterdir())
