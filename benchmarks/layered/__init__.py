"""What layered_speed.py is made of."""
