#!/usr/bin/env python3
"""Measures tokens per second of a Llama with random weights that vLLM serves, by who does its all-reduces.

Arms: vllm, as vLLM is without multicast: with FlashInfer installed, FlashInfer's fused all-reduce; custom, its custom
all-reduce instead; nccl, neither; plugin, custom with goccl's plug-in; library, nccl with goccl's libnccl.so.2. Each is
an engine with its processes. All engines stay up and take turns, and only one works at a time. The first one starts
alone, so the others find its compiled kernels; starts may take two thirds of the time. In a turn an
engine generates one token for each prompt of a batch twice, the first time to come out of its idle state, and then
N + 1: the difference is the time of N decode steps. Round 0 is not counted. FILE gets a
line of JSON for every turn, and FILE.ARM.log an engine's output. vLLM and goccl must be installed.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PROMPT, VOCABULARY, HEAD = 32, 32768, 128
# No multicast: a program that creates multicast objects can take the host's GPUs out of service.
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1",
               "VLLM_ALLREDUCE_USE_SYMM_MEM": "0", "VLLM_ALLREDUCE_USE_FLASHINFER": "0", "VLLM_USE_NCCL_SYMM_MEM": "0",
               "VLLM_FLASHINFER_ALLREDUCE_BACKEND": "trtllm", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def model(hidden, layers):
    """The configuration of a model of Llama 3's proportions."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "hidden_act": "silu",
            "intermediate_size": hidden * 7 // 2, "num_hidden_layers": layers, "num_attention_heads": hidden // HEAD,
            "num_key_value_heads": 8, "head_dim": HEAD, "vocab_size": VOCABULARY, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "rope_theta": 5e5, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


def serve(options):
    """An engine's process: it answers each line of its input, a batch and a seed, by a line on a pipe."""
    from vllm import LLM, SamplingParams
    replies = os.fdopen(options.replies, "w", buffering=1)
    passes = {} if options.serve == "vllm" else {"compilation_config": {"pass_config": {"fuse_allreduce_rms": False}}}
    engine = LLM(options.model, load_format="dummy", skip_tokenizer_init=True, tensor_parallel_size=options.tp,
                 max_model_len=PROMPT + options.steps + 1, max_num_seqs=max(options.batches),
                 kv_cache_memory_bytes=1 << 30, gpu_memory_utilization=0.1, enable_prefix_caching=False,
                 disable_custom_all_reduce=options.serve in ("nccl", "library"), **passes | json.loads(options.options))
    print("{}", file=replies)
    for line in sys.stdin:
        batch, seed = json.loads(line)
        draw, seconds = random.Random(seed), []
        prompts = [{"prompt_token_ids": draw.choices(range(3, VOCABULARY), k=PROMPT)} for _ in range(batch)]
        for n in 1, 1, options.steps + 1:
            sampling = SamplingParams(temperature=0, max_tokens=n, ignore_eos=True, detokenize=False)
            begin = time.perf_counter()
            texts = [list(o.outputs[0].token_ids) for o in engine.generate(prompts, sampling, use_tqdm=False)]
            seconds.append(time.perf_counter() - begin)
        assert [len(t) for t in texts] == [n] * batch
        print(json.dumps({"seconds": seconds[1:], "texts": texts}), file=replies)


class Engine:
    """The launcher's end of an arm's engine, which it kills with all its processes."""

    def __init__(self, arm, options, folder):
        self.arm, (read, write) = arm, os.pipe()
        self.replies, environment = os.fdopen(read), os.environ | ENVIRONMENT
        if arm == "plugin":
            environment["VLLM_PLUGINS"] = "goccl"
        elif arm == "library":
            import goccl
            environment["VLLM_NCCL_SO_PATH"] = os.path.join(goccl.get_lib(), "libnccl.so.2")
        command = [sys.executable, *sys.argv, "--serve", arm, "--replies", str(write), "--model", folder]
        with open(f"{options.json}.{arm}.log", "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[write],
                                            env=environment, text=True, start_new_session=True)
        os.close(write)

    def ask(self, question, end):
        """Its reply, or None if it ends or time does. Without a question, its first line: the engine is ready."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(question)
            self.process.stdin.flush()
        while self.process.poll() is None:
            left = end - time.monotonic()
            if select.select([self.replies], [], [], max(0, min(left, 1)))[0]:
                return json.loads(self.replies.readline() or "null")
            if left <= 0:
                break
        return None

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def measure(options, engines, end, file):
    """Writes and yields the rows of all turns. An engine without an answer ends the measurement."""
    for turn, batch in itertools.product(range(options.rounds + 1), options.batches):
        texts = None
        for e in engines[turn % len(engines):] + engines[:turn % len(engines)]:
            got = e.ask(f"[{batch}, {turn * 1000 + batch}]\n", end)
            if got is None:
                print(f"{e.arm}: no answer in round {turn}, batch {batch}")
                return
            (short, long), texts = got["seconds"], texts or got["texts"]
            row = {"arm": e.arm, "tp": options.tp, "hidden": options.hidden, "layers": options.layers, "batch": batch,
                   "round": turn, "prefill_s": short, "total_s": long, "step_us": (long - short) / options.steps * 1e6,
                   "tokens_per_s": batch * options.steps / (long - short),
                   "same": sum(a == b for a, b in zip(texts, got["texts"], strict=True)) / batch}
            print(json.dumps(row), file=file, flush=True)
            yield row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", required=True, metavar="FILE")
    p.add_argument("--arms", type=lambda s: s.split(","), default=["custom", "plugin", "vllm", "nccl", "library"])
    p.add_argument("--batches", type=lambda s: [int(b) for b in s.split(",")], default=[1, 16, 64])
    for name, default in ("tp", 2), ("hidden", 8192), ("layers", 8), ("steps", 128), ("rounds", 7), ("seconds", 250):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--options", default="{}", help="further ones of vllm.LLM")
    for name, kind in ("serve", str), ("replies", int), ("model", str):
        p.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.serve:
        return serve(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    begin, engines, ready = time.monotonic(), [], []
    with tempfile.TemporaryDirectory() as folder, open(options.json, "w") as file, contextlib.ExitStack() as stack:
        pathlib.Path(folder, "config.json").write_text(json.dumps(model(options.hidden, options.layers)))
        for arm in options.arms:
            engines.append(Engine(arm, options, folder))
            stack.callback(engines[-1].kill)
            for e in engines if not ready or arm == options.arms[-1] else []:
                if e not in ready and e.ask("", begin + options.seconds * 2 / 3) is not None:
                    ready.append(e)
                    print(f"{e.arm}: ready {time.monotonic() - begin:.0f} s after the start")
        rows = [r for r in measure(options, ready, begin + options.seconds, file) if r["round"]] if ready else []
    print(f"{'batch':>5} {'arm':8} {'turns':>5} {'tokens/s':>9} {'µs a step':>9} {'same':>5}")
    for batch, arm in itertools.product(options.batches, options.arms):
        mine = [r for r in rows if (r["batch"], r["arm"]) == (batch, arm)]
        if mine:
            rate, step, same = (statistics.median(r[k] for r in mine) for k in ("tokens_per_s", "step_us", "same"))
            print(f"{batch:5} {arm:8} {len(mine):5} {rate:9.0f} {step:9.0f} {same:5.2f}")
    return 0 if len(ready) == len(options.arms) and rows else 1


if __name__ == "__main__":
    sys.exit(main())
