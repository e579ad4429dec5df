"""The newest live result, and the time course that every result is added to."""

import numpy as np

from napari_gpubio.speckle.live import Latest, LiveResult, TimeCourse


class CourseLatest(Latest[LiveResult]):
    """The newest `LiveMap`; K² of every one is added to a time course, also of those that are never drawn.

    Parameters
    ----------
    course
        The time course. Its clock goes on over stops and starts, see `begin`.
    """

    def __init__(self, course: TimeCourse) -> None:
        super().__init__()
        self.course = course
        self.time_s = 0.0  # of the last result, on the clock of the time course
        self._offset_s = 0.0
        self._baseline_from_s = 0.0

    def begin(self, offset_s: float) -> None:
        """Count the times of the next results from this moment on."""
        self._offset_s = max(offset_s, self.time_s)

    def publish(self, result: LiveResult) -> None:
        """Put a result here, and its K² into the time course."""
        if np.isfinite(result.timestamp_s):
            self.time_s = max(self.time_s, self._offset_s + result.timestamp_s)
        live = result.value
        if live.k2:
            self.course.append(self.time_s, live.k2)
        if live.baseline_step is not None:
            self._note_baseline(*live.baseline_step)
        super().publish(result)

    def _note_baseline(self, step: int, last: int) -> None:
        if step == 1:
            self._baseline_from_s = self.time_s
        if step == last and len(self.course) and self.course.times_s[-1] >= self._baseline_from_s:
            self.course.set_baseline(self._baseline_from_s, self.time_s)
