"""Who asks and whether they may. There is no authentication yet: everyone is ANONYMOUS and may do
all."""
