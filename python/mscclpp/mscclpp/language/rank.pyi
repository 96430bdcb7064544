from goccl.language.rank import *  # noqa: F401,F403
