"""The metrics of the broker: their table, and the lines of the page `/metrics`. The package
`observe` puts the page together and serves it."""
