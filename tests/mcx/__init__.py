"""Tests of input files of MCX."""
