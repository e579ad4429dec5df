"""Tests of the dock widget "Light transport"."""
