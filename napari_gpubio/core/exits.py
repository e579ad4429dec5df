"""The exit statuses of the command line, which its help and documentation list."""

import enum


class Exit(enum.IntEnum):
    """Status that the program ends with; ``meaning`` says of each when.

    Examples
    --------
    >>> int(Exit.REFUSED), Exit.STOPPED.meaning
    (2, 'stopped by Ctrl-C or a request to end; what was done is kept')
    """

    meaning: str

    DONE = 0, "done"
    NOT_PASSED = 1, "done, and a check, comparison, constraint or compilation did not pass"
    REFUSED = 2, "nothing done, or not all of it: a sentence on stderr says what is wrong, and what to do"
    DEFECT = 70, "a defect of the program, whose traceback is on stderr"
    STOPPED = 130, "stopped by Ctrl-C or a request to end; what was done is kept"
    PIPE_CLOSED = 141, "nobody reads what it prints any more"

    def __new__(cls, status: int, meaning: str) -> "Exit":
        """Make a status that has its meaning."""
        made = int.__new__(cls, status)
        made._value_, made.meaning = status, meaning
        return made
