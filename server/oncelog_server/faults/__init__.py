"""How tests break a broker on purpose, at a named step: imported only where that is asked for."""
