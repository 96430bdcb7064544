from goccl.language.loop import *  # noqa: F401,F403
