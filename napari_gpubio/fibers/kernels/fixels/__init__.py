"""Geodesics in the field of the fixel that is followed."""
