"""Lacuner inside other libraries, and other libraries' objects inside Lacuner."""
