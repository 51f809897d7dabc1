"""The papers' tables as one command each: the same runs, the published value beside every cell, a verdict of every claim."""
