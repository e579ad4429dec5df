"""The verbs ``light`` and ``mcx`` as a shell would run them."""

from tests.shell import run_verb


def light(*arguments: str) -> int:
    """Run the verb on labels; return its exit status."""
    return run_verb("light", *arguments)


def mcx(*arguments: str) -> int:
    """Run the verb on an input file of MCX, to the folder out by default; return its exit status."""
    out = () if "--out" in arguments else ("--out", "out")
    return run_verb("mcx", *arguments, *out)
