from goccl import *  # noqa: F401,F403
