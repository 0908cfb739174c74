"""The figures of the broker: a table of metrics, and the lines of its page from read models. The
page is put together and served in `observe`."""
