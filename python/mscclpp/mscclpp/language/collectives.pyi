from goccl.language.collectives import *  # noqa: F401,F403
