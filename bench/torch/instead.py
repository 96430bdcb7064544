"""goccl where a program says gloo: an entry point of torch.backends, which suite.py adds to every process of tests. It
is a plug-in of pytest, too."""

import functools


def gloo():
    """Makes groups of "gloo" groups of goccl on the host device."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    from goccl._torch_autoload import autoload

    autoload()

    def replaced(call, place):
        @functools.wraps(call)
        def with_goccl(*args, **kwargs):
            if len(args) > place:
                kwargs["backend"], args = args[place], (*args[:place], *args[place + 1:])
                assert len(args) == place, "arguments after backend are named"
            if str(kwargs.get("backend")) in ("gloo", "cpu:gloo"):
                kwargs["backend"] = "goccl"
            return call(*args, **kwargs)

        return with_goccl

    for name, place in (("init_process_group", 0), ("new_group", 2)):
        call = replaced(getattr(dist, name), place)
        setattr(dist, name, call)
        setattr(distributed_c10d, name, call)


def pytest_runtest_setup(item):
    """A failure of a test does not skip the tests after it."""
    if getattr(item.cls, "poison_pill", False):
        item.cls.poison_pill = False
