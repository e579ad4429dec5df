"""Doses, structures and histograms from files and to files."""
