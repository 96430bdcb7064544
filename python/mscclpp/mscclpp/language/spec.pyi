from goccl.language.spec import *  # noqa: F401,F403
