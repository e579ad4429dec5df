"""A file that cannot be written gives a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from napari_gpubio.core.errors import InvalidInput


@contextmanager
def explain_failure(path: str | Path) -> Iterator[None]:
    """Turn what the system says while ``path`` is written (disk full, no permission) into `InvalidInput`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput(
            f"{Path(path).name} could not be written ({reason}); free space or choose another folder. What was there "
            "before is unchanged"
        ) from error
