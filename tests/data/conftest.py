"""Property tests have no deadline here: the first example pays for lazy imports, and machines are shared."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
