"""Retrieval as a service: the Search-R1 protocol over one of our indexes (`evoctx serve`). Imports no torch."""
