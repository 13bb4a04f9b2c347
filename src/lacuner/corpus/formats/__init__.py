"""One file a format, with its reader and its writer."""
