"""Writers of formats that the package only reads, for the tests: written from their descriptions, not from its code."""

import base64
import gzip
import itertools
import struct
import zlib

import numpy as np

VTP_CODINGS = ("text", "base64", "apart", "zlib", "raw", "raw zlib", "appended", "big 64")
_TYPES = {"f4": "Float32", "f8": "Float64", "i4": "Int32", "i8": "Int64", "u1": "UInt8"}
_BLOCK = 64  # bytes that are packed together, so few that there are several blocks


def write_vtp(path, fibers, coding="text", *, space="RAS", pieces=1):
    """Write fibers with their columns of numbers as VTK XML; ``pieces``: the fibers are dealt out to that many."""
    order, word = (">", "u8") if coding == "big 64" else ("<", "u4")
    is_packed, appended = "zlib" in coding, bytearray()
    raw = coding in ("raw", "raw zlib")

    def encoded(data: bytes) -> bytes:
        return data if raw else base64.b64encode(data)

    def bytes_of(values) -> bytes:
        data = np.ascontiguousarray(values, np.asarray(values).dtype.newbyteorder(order)).tobytes()
        if not is_packed:
            head = np.array([len(data)], order + word).tobytes()
            return encoded(head) + encoded(data) if coding == "apart" else encoded(head + data)
        blocks = [data[n : n + _BLOCK] for n in range(0, len(data), _BLOCK)]
        small = [zlib.compress(block) for block in blocks]
        head = [len(blocks), _BLOCK, len(data) % _BLOCK, *map(len, small)]
        return encoded(np.array(head, order + word).tobytes()) + encoded(b"".join(small))

    def array(name, values) -> str:
        values = np.asarray(values)
        values = values.astype("u1") if values.dtype == bool else values
        k = 1 if values.ndim == 1 else values.shape[1]
        start = f'<DataArray type="{_TYPES[values.dtype.str[1:]]}" Name="{name}" NumberOfComponents="{k}"'
        if coding == "text":
            return f'{start} format="ascii">{" ".join(map(str, values.ravel().tolist()))}</DataArray>'
        if raw or coding == "appended":
            at = len(appended)
            appended.extend(bytes_of(values))
            return f'{start} format="appended" offset="{at}"/>'
        return f'{start} format="binary">{bytes_of(values).decode()}</DataArray>'

    flip = np.array([-1, -1, 1], np.float32) if space == "LPS" else np.ones(3, np.float32)
    ending, words = ("Big" if order == ">" else "Little"), ("UInt64" if word == "u8" else "UInt32")
    text = '<?xml version="1.0"?>\n<VTKFile type="PolyData" version="1.0" '
    text += f'byte_order="{ending}Endian" header_type="{words}"'
    text += ' compressor="vtkZLibDataCompressor">' if is_packed else ">"
    text += "<PolyData>"
    if space is not None:
        codes = " ".join(str(ord(letter)) for letter in f"{space}\0")
        text += f'<FieldData><Array type="String" Name="SPACE" format="ascii">{codes}</Array></FieldData>'
    ends = np.linspace(0, len(fibers), pieces + 1).astype(int)
    for first, last in itertools.pairwise(ends):
        part = fibers.part(first, last)
        text += f'<Piece NumberOfPoints="{len(part.points)}" NumberOfLines="{len(part)}" NumberOfVerts="0"><PointData>'
        text += "".join(array(name, values) for name, values in part.per_point.items()) + "</PointData><CellData>"
        text += "".join(array(name, values) for name, values in part.per_fiber.items()) + "</CellData><Points>"
        text += array("Points", part.points * flip) + "</Points><Lines>"
        text += (
            array("connectivity", np.arange(len(part.points))) + array("offsets", part.offsets[1:]) + "</Lines></Piece>"
        )
    data = (text + "</PolyData>").encode()
    if appended:
        data += f'<AppendedData encoding="{"raw" if raw else "base64"}">_'.encode() + appended + b"</AppendedData>"
    path.write_bytes(data + b"</VTKFile>")


def write_tiny_track(path, fibers, clusters=None, *, trans=True):
    """Write fibers as DSI Studio does, to 1/32 voxel; steps of more than 127/32 voxel cannot be kept."""
    voxels = (fibers.points - fibers.affine[:3, 3]) @ np.linalg.inv(fibers.affine[:3, :3]).T
    track = b""
    for first, last in zip(fibers.offsets[:-1], fibers.offsets[1:], strict=True):
        steps = np.round(voxels[first:last] * 32).astype(int)
        rest = np.diff(steps, axis=0)
        assert np.abs(rest).max(initial=0) <= 127
        track += struct.pack("<I3i", steps.size, *steps[0]) + rest.astype(np.int8).tobytes()
    matrices = {
        "dimension": np.array([fibers.shape], np.int32),
        "voxel_size": np.array([np.linalg.norm(fibers.affine[:3, :3], axis=0)], np.float32),
        "trans_to_mni": fibers.affine.astype(np.float32).T,  # rows are columns there
        "track": np.frombuffer(track, np.uint8)[None],
    }
    if not trans:
        del matrices["trans_to_mni"]
    if clusters is not None:
        matrices["cluster"] = np.array([clusters], np.uint16)
    codes = {"f4": 10, "i4": 20, "u2": 40, "u1": 50}
    data = b""
    for name, matrix in matrices.items():
        head = struct.pack("<5i", codes[matrix.dtype.str[1:]], *matrix.shape, 0, len(name) + 1)
        data += head + name.encode() + b"\0" + matrix.tobytes(order="F")
    path.write_bytes(gzip.compress(data, mtime=0))


def write_tsf(path, fibers, values, timestamp=None):
    """Write a number for each point of fibers as MRtrix does."""
    rows = [np.append(values[a:b], np.nan) for a, b in zip(fibers.offsets[:-1], fibers.offsets[1:], strict=True)]
    stamp = "" if timestamp is None else f"timestamp: {timestamp}\n"
    head = f"mrtrix track scalars\ncount: {len(fibers)}\n{stamp}datatype: Float32LE\nfile: . 200\nEND\n".encode()
    path.write_bytes(head.ljust(200) + np.concatenate([*rows, [np.inf]]).astype("<f4").tobytes())
