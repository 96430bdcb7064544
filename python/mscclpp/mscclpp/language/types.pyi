from goccl.language.types import *  # noqa: F401,F403
