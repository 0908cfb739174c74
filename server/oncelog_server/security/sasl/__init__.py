"""The broker's side of the SASL mechanisms, one module each."""
