from goccl.language.program import *  # noqa: F401,F403
