"""Recording of raw frames that survives a crash."""

from napari_gpubio.speckle.live.recording.recorder import Recording, RecordingStatus

__all__ = ["Recording", "RecordingStatus"]
