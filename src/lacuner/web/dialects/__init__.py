"""Request and response formats of a model server: one file per tool, pure functions without HTTP."""
