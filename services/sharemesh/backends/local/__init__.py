"""The machine itself: clock, disk; and in-process fillings."""
