"""File access: atomic writes, and bounded reads of untrusted files."""
