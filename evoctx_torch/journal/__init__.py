"""The durable record of a run: every operation's result, so that a killed run goes on where it stood."""

from evoctx_torch.journal.executor import Journaled, record_in
from evoctx_torch.journal.store import Journal, JournalInUse

__all__ = ["Journal", "JournalInUse", "Journaled", "record_in"]
