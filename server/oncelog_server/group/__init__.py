"""The group coordinator: groups of any protocol (`group.Group`) and their offsets. Pure."""
