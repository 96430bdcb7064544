from goccl.language.channel import *  # noqa: F401,F403
