"""The metrics themselves: from pixels to numbers. One module a class; see `base` for what a class must do."""
