"""The group coordinator: classic consumer groups and their offsets. Pure."""
