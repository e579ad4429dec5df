"""How tests are chosen, kept from hanging, timed, and given windows: plugins that `tests/conftest.py` loads."""
