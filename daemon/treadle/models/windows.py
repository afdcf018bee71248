"""How many tokens a model takes in one request, by its name.

Owns the table of families, how a name finds its family, and what endpoints said in this process.
Refuses to know endpoints, the embedded model's own size, and what anyone does with a figure.

A figure is what a request may hold: where a vendor bounds the input below the context window, as
OpenAI does, it is the bound. Where sources or hosts differ it is the smaller one, for a window
that is taken for too large costs a failed call, or in the worst case words that are cut in
silence. Where each figure comes from, read on 2026-12-01; "models.dev" is the public catalogue
github.com/anomalyco/models.dev in its state of October 2026, "as served" what overflow replies
in public bug reports name:

| family                    | source                                                          |
|---------------------------|-----------------------------------------------------------------|
| Claude 3 to 5.5           | platform.claude.com "Models overview" (2026); models.dev        |
| Claude 2                  | docs.anthropic.com, model history (2024)                        |
| GPT-4.1 to GPT-6, gpt-oss | models.dev, `input` where it names one; "configured limit of    |
|                           | 272000 tokens" as served (2026-04)                              |
| GPT-3.5, GPT-4, o1 to o4  | platform.openai.com model pages (2025); models.dev              |
| Gemini, Gemma             | ai.google.dev model pages (2025); models.dev; Gemma 4 as served |
|                           | by Cloudflare (2026-04)                                         |
| Mistral                   | docs.mistral.ai "Models overview" (2025-10); models.dev         |
| Grok                      | docs.x.ai by models.dev; "maximum prompt length" as served      |
| DeepSeek                  | api-docs.deepseek.com by models.dev; models.dev                 |
| Qwen                      | models.dev; open weights by their model cards without rope      |
|                           | scaling (40,960 and 32,768), as served by SGLang (2025-04)      |
| Kimi                      | platform.moonshot.ai and models.dev                             |
| GLM, MiniMax              | models.dev; OpenRouter's catalogue (2026-09)                    |
| Llama                     | model cards; Llama 4 as served by Groq (131,072)                |
| Cohere, Nova, Sonar       | models.dev                                                      |
| Phi, Jamba, Nemotron      | model cards (2024, 2025)                                        |
"""

from __future__ import annotations

import re

# For a model that nobody knows. The smallest window in which agents are run in earnest, and what
# a local server is often started with: a model that takes more is compacted early, one that
# takes less says so, or is named with its `window` in the agent's file.
DEFAULT_WINDOW = 32_768

# No model is served with a smaller window. A figure below is another one: a server told what was
# left of the window, 3 tokens, in the place of the window (vLLM, issue 33418).
MIN_WINDOW = 256

# Names come from people's files, so there are few; a program that makes them up without end is
# remembered this far.
MAX_LEARNT = 1_000


def window_of(model: str) -> int | None:
    """Return how many tokens the model takes in one request; None for one that is not known.

    What an endpoint said of it in this process comes before the table. A model of a local
    server's (`qwen3:32b`) is not known: what it takes is what that server was started with.

    Args:
        model: its name as the endpoint knows it, with an aggregator's prefix and a date or not.
    """
    name = _name(model)
    if name in _learnt:
        return _learnt[name]
    return None if _LOCAL.search(name) else _in_table(name)


def learn(model: str, window: int) -> None:
    """Remember, for as long as this process lives, what an endpoint said of a model.

    A later figure replaces an earlier one; one that can be no window is ignored.
    """
    if window < MIN_WINDOW:
        return
    if len(_learnt) >= MAX_LEARNT:
        del _learnt[next(iter(_learnt))]
    _learnt[_name(model)] = window


_learnt: dict[str, int] = {}


def _name(model: str) -> str:
    return model.strip().lower()


# A tag that names a size or a quantisation is how Ollama, and files in GGUF, name a model.
_LOCAL = re.compile(r":(?:latest$|e?\d+(?:\.\d+)?[bm](?!.*cloud)|[^/]*\bi?q\d)|gguf|/mlx-")

# `v3p1` is how Fireworks writes 3.1.
_POINT = re.compile(r"(?<=\d)p(?=\d)")

_TOKEN = re.compile(r"[a-z]+|\d+")

# What stands before a family's name: Bedrock's regions and vendors, and vendors elsewhere.
_PREFIXES = (
    "us eu apac au jp ca global anthropic amazon meta mistral cohere ai openai google azure qwen "
    "minimax moonshot moonshotai nvidia xai zai z zhipu microsoft ft labs open deepseek ibm"
)
_BEFORE = frozenset(_PREFIXES.split())


def _in_table(name: str) -> int | None:
    tokens = _tokens(name.rsplit("/", 1)[-1])
    for start, token in enumerate(tokens):
        for end in range(start + _LONGEST, start, -1):
            if (window := _BY_TOKENS.get(tokens[start:end])) is not None:
                return window
        if token not in _BEFORE:
            return None
    return None


def _tokens(name: str) -> tuple[str, ...]:
    """Return a name's words and numbers: what stands between them differs by the host."""
    return tuple(_TOKEN.findall(_POINT.sub(".", name)))


# A name's longest beginning that stands here counts, words and numbers taken whole: `gpt-4-1106`
# is no `gpt-4.1`, and `claude-sonnet-4-20250514` no later Sonnet.
_TABLE: dict[int, str] = {
    4_096: "gpt-3.5-turbo-instruct llama-2 llama-v2 command command-light phi-3-mini-4k",
    8_000: "command-a-translate",
    8_192: "gpt-4 llama-3 llama-v3 gemma gemma-2 grok-2-vision moonshot-v1-8k phi-3-small-8k aya",
    16_384: "phi-4 codellama",
    16_385: "gpt-3.5-turbo gpt-35-turbo",
    32_000: "voxtral",
    32_768: (
        "gpt-4-32k mistral-large-2402 mistral-7b mistral-saba mixtral-8x7b codestral-22b "
        "gemma-3-1b gemma-3n gemini-2.5-flash-image gemini-2.0-flash-preview-image qwen-max "
        "qwen2.5 qwen2 moonshot-v1-32k phi-4-reasoning"
    ),
    40_960: "qwen3",
    64_000: "mixtral-8x22b",
    65_536: "gemini-3-pro-image",
    100_000: "claude-2 claude-instant",
    128_000: (
        "gpt-4o chatgpt-4o gpt-4.5 gpt-4-turbo gpt-4-1106 gpt-4-0125 gpt-4-vision o1-mini "
        "o1-preview gpt-5-chat gpt-5.1-chat gpt-5.2-chat gpt-5.3-chat gpt-5.3-codex-spark "
        "mistral-large-2407 mistral-large-2411 mistral-medium mistral-small mistral-nemo ministral "
        "magistral devstral pixtral command-r command-r7b command-a-plus command-a-vision "
        "nova-micro sonar llama-3.1 llama-3.2 llama-3.3 llama-v3.1 llama-v3.2 llama-v3.3 "
        "deepseek-v3 deepseek-r1 "
        "deepseek-chat-v3 deepseek-chat-v3.1 glm-4 nemotron phi-3 phi-3.5 phi-4-mini "
        "phi-4-multimodal"
    ),
    131_072: (
        "gpt-oss gemma-3 gemma-4 grok grok-2 grok-3 kimi-k2 moonshot-v1-128k kimi-latest qwq "
        "glm-4.5 glm-4.6v llama-4"
    ),
    196_608: "minimax-m2",
    200_000: "claude claude-2.1 o1 o3 o4 codex-mini sonar-pro",
    202_752: "glm-4.6 glm-4.7 glm-5",
    256_000: (
        "mistral-large mistral-medium-3.5 mistral-medium-2604 mistral-small-4 mistral-small-2603 "
        "ministral-3b-2512 ministral-8b-2512 ministral-14b codestral devstral-2 devstral-2512 "
        "devstral-small-2512 devstral-small-2 command-a grok-4 grok-code grok-build jamba"
    ),
    262_144: (
        "qwen3-max qwen3-coder qwen3-next qwen3-235b-a22b-instruct-2507 "
        "qwen3-235b-a22b-thinking-2507 qwen3-30b-a3b-instruct-2507 qwen3-30b-a3b-thinking-2507 "
        "qwen3.5 qwen3.6 kimi-k2-0905 kimi-k2-instruct-0905 kimi-k2-thinking kimi-k2-turbo "
        "kimi-k2.5 kimi-k2.6 kimi-k2.7 gemma-4-31b"
    ),
    272_000: "gpt-5 gpt-5.1 gpt-5.2 gpt-5.3-codex gpt-5.4-mini gpt-5.4-nano",
    300_000: "nova-lite nova-pro",
    500_000: "grok-4.5 grok-4.6 grok-4.7",
    512_000: "minimax-m3",
    922_000: "gpt-5.4 gpt-5.5 gpt-5.6 gpt-6",
    1_000_000: (
        "claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-sonnet-4-6 claude-opus-5 "
        "claude-sonnet-5 claude-haiku-5.5 claude-fable-5 claude-mythos-5 grok-4.3 nova-premier "
        "nova-2-lite deepseek-v4 deepseek-v4.1 deepseek-chat deepseek-reasoner deepseek-flash "
        "qwen-plus qwen-flash qwen-turbo qwen3-coder-plus qwen3-coder-flash qwen3.5-plus "
        "qwen3.5-flash qwen3.6-plus qwen3.7-plus qwen3.8-max qwen3.8-flash glm-5.2 glm-5.3"
    ),
    1_047_576: "gpt-4.1",
    1_048_576: "gemini kimi-k3",
    2_000_000: "grok-4-fast grok-4-1-fast grok-4.20",
    2_097_152: "gemini-1.5-pro",
}

_BY_TOKENS = {_tokens(name): window for window, names in _TABLE.items() for name in names.split()}
_LONGEST = max(map(len, _BY_TOKENS))
