from goccl.language.utils import *  # noqa: F401,F403
