"""Write the table of the docs."""

from tests.conformance import table
from tests.conformance.test_conformance import KINDS, PAGE

PAGE.write_text(table(KINDS), encoding="utf-8")
