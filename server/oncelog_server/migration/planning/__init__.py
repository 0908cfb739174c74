"""What an import or an export will do. Planning reads files and changes nothing."""
