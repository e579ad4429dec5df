"""What a sentence tells, whatever its words."""


def says(text: str, *facts: str) -> bool:
    """Whether a text has all of these, in this order."""
    place = 0
    for fact in facts:
        place = text.find(fact, place) + 1
        if not place:
            return False
    return True
