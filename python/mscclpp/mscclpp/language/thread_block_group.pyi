from goccl.language.thread_block_group import *  # noqa: F401,F403
