"""What an operator sees of a broker: its log now; metrics and the console come later."""
