"""How the tests are chosen, kept from hanging, and given windows: plugins of pytest's that `tests/conftest.py` loads."""
