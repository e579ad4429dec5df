"""What a sentence tells, whatever its words."""

import re


def says(text: str, *facts: str) -> bool:
    """Whether a text has all of these, one after the other."""
    return re.search(".*".join(map(re.escape, facts)), text, re.DOTALL) is not None
