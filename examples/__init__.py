"""What one builds on oncelog."""
