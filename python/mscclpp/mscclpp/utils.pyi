from goccl.utils import *  # noqa: F401,F403
