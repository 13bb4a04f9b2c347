"""What programs say to a server of models, and expect to hear: one file a tool, pure functions and no HTTP."""
