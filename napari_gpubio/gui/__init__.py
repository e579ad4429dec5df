"""What every dock widget stands on: the streamlines layer, picking, and the panel. It knows no engine."""
