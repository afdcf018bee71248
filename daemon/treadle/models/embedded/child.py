"""The embedded model's process: serves one model file on loopback until its input ends.

Owns the settings of the runtime. Its standard output is one JSON line: `{"base_url": …}` once the
model answers, or `{"error": …, "how": …}`. Started by `server`, never by a person; it imports
nothing of Treadle but the words of an error.

    python -P -m treadle.models.embedded.child --model FILE --context TOKENS
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from typing import Any

from treadle.models.embedded.files import FILE_VARIABLE, HOW_TO_GET_RUNTIME

# The key that requests must carry; in the environment, for arguments can be read by everybody.
KEY_VARIABLE = "TREADLE_EMBEDDED_KEY"

# The name by which the endpoint knows the model, instead of a path of this machine.
ALIAS = "embedded"

# Prompts of earlier turns that are kept read, in MiB; the runtime's own default is 8192.
PROMPT_CACHE_MIB = 256

# A model this small gains nothing from more threads than this.
MAX_THREADS = 8


def main() -> None:
    """Serve until the end of input; returns only when the model cannot be served."""
    options = _parser().parse_args()
    # Whatever native code prints goes to standard error; the parent reads one line of ours.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    watch = threading.Thread(target=_end_with_input, daemon=True)
    watch.start()
    said, server = _serve(options.model, options.context)
    print(json.dumps(said), file=answer, flush=True)
    answer.close()
    if server is not None:
        watch.join()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="treadle.models.embedded.child")
    parser.add_argument("--model", required=True)
    parser.add_argument("--context", type=int, required=True)
    return parser


def _end_with_input() -> None:
    """End the process when the parent closes our input or dies, also while the model loads."""
    while os.read(0, 4096):
        pass
    # Without clean-up: nothing is to be saved, and native threads may be at work.
    os._exit(0)


def _serve(model: str, context: int) -> tuple[dict[str, str], Any]:
    """Start serving; return what to tell the parent, and the server if there is one."""
    try:
        import xllamacpp
    except (ImportError, OSError) as error:
        return {"error": f"its runtime cannot be loaded ({error})", "how": _how(error)}, None
    try:
        server = xllamacpp.Server(_settings(xllamacpp, model, context))
    except Exception as error:  # the runtime's own kinds, which differ by version
        how = f"run `treadle model pull`, or set {FILE_VARIABLE} to a GGUF file that is whole"
        return {"error": f"{model} cannot be served ({error})", "how": how}, None
    return {"base_url": f"{server.listening_address}/v1"}, server


def _how(error: Exception) -> str:
    if "libgomp" in str(error):
        return "install the system's OpenMP library: apt install libgomp1, or dnf install libgomp"
    return HOW_TO_GET_RUNTIME


def _settings(xllamacpp: Any, model: str, context: int) -> Any:
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.model_alias = {ALIAS}
    # The context is shared out between slots; one slot has all of it, others wait their turn.
    settings.n_ctx, settings.n_parallel = context, 1
    cores = _cores()
    # Writing waits for its slowest thread at every token: with a busy neighbour on the last core
    # it is ten times slower, so one core is left free. Reading goes on at no less for using all.
    settings.cpuparams.n_threads = max(1, min(cores - 1, MAX_THREADS))
    settings.cpuparams_batch.n_threads = min(cores, MAX_THREADS)
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.api_keys = [os.environ[KEY_VARIABLE]]
    # The runtime lets any web page ask, has a page of its own, and shows what others asked.
    settings.cors_origins = "http://127.0.0.1"
    settings.ui = settings.endpoint_slots = False
    settings.endpoint_props = settings.endpoint_metrics = False
    settings.cache_ram_mib = PROMPT_CACHE_MIB
    settings.offline = settings.warmup = True
    settings.verbosity = 1  # errors only
    return settings


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1


if __name__ == "__main__":
    main()
