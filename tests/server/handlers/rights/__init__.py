"""The rights that each API needs, as tables, and a broker that checks them."""
