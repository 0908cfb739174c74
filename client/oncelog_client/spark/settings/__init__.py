"""The options of `format("oncelog")`, and the client settings that follow from these options."""
