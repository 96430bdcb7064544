from goccl.comm import *  # noqa: F401,F403
