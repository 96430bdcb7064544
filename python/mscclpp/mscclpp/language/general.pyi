from goccl.language.general import *  # noqa: F401,F403
