"""The group coordinator: groups of any protocol (`group.Group`) and their offsets. This
package does no I/O."""
