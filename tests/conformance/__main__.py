"""Write the table of the docs."""

from tests.conformance import dangerous, table
from tests.conformance.test_conformance import KINDS, PAGE

PAGE.write_text(table(KINDS, dangerous.ELSEWHERE), encoding="utf-8")
