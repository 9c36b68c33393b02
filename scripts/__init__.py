"""Text in video, from footage to tables: every step runs as ``python -m scripts.<stage>.<rule> --help``."""
