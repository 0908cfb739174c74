"""The plans of imports and exports. Planning reads files and changes nothing."""
