"""Names of layers, files and numbers in texts that others read line by line: scripts, tables, reports."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

_ENDS_OF_LINES = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"  # those of Python's splitlines, and the end of a column
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_SPACES = dict.fromkeys(map(ord, _ENDS_OF_LINES), " ")


def one_line(text: str) -> str:
    r"""Return a name in one line: ends of lines and tabs are spaces, other control characters their number.

    Examples
    --------
    >>> from napari_gpubio.core.text import one_line
    >>> one_line("left\nbundle\x1b[31m")
    'left bundle\\x1b[31m'
    """
    return str(text).translate(_CONTROLS | _SPACES)


def comment(text: str) -> str:
    """Return a comment of Python, of which a name cannot end the line and become code."""
    return f"# {one_line(text)}"


def delimited(rows: Iterable[Iterable[str]], separator: str = ",") -> str:
    r"""Return rows of a table as lines; cells that hold the separator or quotes are quoted (RFC 4180).

    Examples
    --------
    >>> from napari_gpubio.core.text import delimited
    >>> delimited([["fiber", "FA, mean"], ["0", "0.5"]])
    'fiber,"FA, mean"\n0,0.5\n'
    """
    file = io.StringIO()
    table = csv.writer(file, delimiter=separator, lineterminator="\n")
    table.writerows([one_line(cell) for cell in row] for row in rows)
    return file.getvalue()


def first_of(names: Sequence[object], most: int) -> str:
    """Return the first so many names with commas between them, and how many more there are.

    Examples
    --------
    >>> from napari_gpubio.core.text import first_of
    >>> first_of(["S1", "S2", "D1"], 2)
    'S1, S2 and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def file_name(text: str) -> str:
    """Return a layer's name as a file name that every system takes."""
    return "".join(c if c.isalnum() or c in " -_." else "_" for c in text).strip(" .") or "unnamed"


def words_of(kind: type | str) -> str:
    """Name of a class as words: ``tensor field`` of ``TensorField``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", kind if isinstance(kind, str) else kind.__name__).lower()
