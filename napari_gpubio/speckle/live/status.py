"""What a live loop tells of itself."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a live loop is in its life."""

    STOPPED = "stopped"
    RUNNING = "running"
    ENDED = "ended"  # the source had no more frames, and all were processed
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStatus:
    """The read-outs of a live loop, at one moment.

    Parameters
    ----------
    state
        Where it is in its life.
    message
        A sentence on what went wrong or is waited for, or nothing.
    camera_hz, processed_hz, drawn_hz
        Frames per second that came from the source, were processed, and were drawn.
    received, processed, drawn
        How many they were since the start.
    dropped
        Frames lost because the ring was full ("every frame").
    skipped
        Frames passed over on purpose ("most recent").
    lost
        Frames that the source knows to have been lost before they came here.
    waiting, slots
        Fill of the ring, and its size.
    ring_megabytes
        Memory of the ring, MiB.
    mean_level, saturated_percent
        Of a recent frame; NaN before the first.
    latency_ms
        From the arrival of a frame to its result, mean of the last ones; NaN before the first.
    """

    state: State
    message: str
    camera_hz: float
    processed_hz: float
    drawn_hz: float
    received: int
    processed: int
    drawn: int
    dropped: int
    skipped: int
    lost: int
    waiting: int
    slots: int
    ring_megabytes: float
    mean_level: float
    saturated_percent: float
    latency_ms: float
