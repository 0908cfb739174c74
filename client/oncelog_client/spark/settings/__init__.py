"""The options of `format("oncelog")`, and the settings of our clients that follow from them."""
