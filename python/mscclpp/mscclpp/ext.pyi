from goccl.ext import *  # noqa: F401,F403
