"""Operations: one record for everything that the program does.

From an operation follow its script, its verb on the command line, its form, its JSON, the sessions that hold it, undo,
and whether a picture is what a panel says. Here is what these share; the operations of an engine are in its
``operations.py``.
"""

from napari_gpubio.core.files import file_checksum
from napari_gpubio.core.operations.arrays import array_checksum
from napari_gpubio.core.operations.differences import difference
from napari_gpubio.core.operations.files import from_graph, graph, read_record, schema, write_record
from napari_gpubio.core.operations.graphs import ancestry, files_of
from napari_gpubio.core.operations.held_layers import HeldLayer
from napari_gpubio.core.operations.kinds import Conversion, Kind, digest, register_conversion, register_kind
from napari_gpubio.core.operations.records import File, Held, Operation, Output, Ref, Summary, file, given, verbs
from napari_gpubio.core.operations.runs import run, run_steps, save
from napari_gpubio.core.operations.scripts import script
from napari_gpubio.core.operations.sessions import open_session, rerun, save_session
from napari_gpubio.core.operations.states import Shown, State, show, stale
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import HeldVolume, OpenVolume, Volume
from napari_gpubio.core.settings import Settings, part

__all__ = [
    "STORE",
    "Conversion",
    "File",
    "Held",
    "HeldLayer",
    "HeldVolume",
    "Kind",
    "OpenVolume",
    "Operation",
    "Output",
    "Ref",
    "Settings",
    "Shown",
    "State",
    "Store",
    "Summary",
    "Volume",
    "ancestry",
    "array_checksum",
    "difference",
    "digest",
    "file",
    "file_checksum",
    "files_of",
    "from_graph",
    "given",
    "graph",
    "open_session",
    "part",
    "read_record",
    "register_conversion",
    "register_kind",
    "rerun",
    "run",
    "run_steps",
    "save",
    "save_session",
    "schema",
    "script",
    "show",
    "stale",
    "verbs",
    "write_record",
]
