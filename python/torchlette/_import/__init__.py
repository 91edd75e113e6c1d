"""Readers of other libraries' model files. Each makes a module that interprets the file's graph."""
