"""The options of `format("oncelog")`, and the settings of the clients that follow from them."""
