"""Doses and structures made by formula."""
