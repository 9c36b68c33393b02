"""Asking a model behind OpenAI's protocol: the same limits, repeats and budget for answers and for judges."""
