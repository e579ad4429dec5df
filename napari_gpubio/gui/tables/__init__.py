"""A table whose cells are typed: judged while they are typed, with a unit, the clipboard and undo."""
