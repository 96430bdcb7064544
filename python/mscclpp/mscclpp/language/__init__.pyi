from goccl.language import *  # noqa: F401,F403
