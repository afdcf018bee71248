"""How large a model's window is taken to be, by the many names that one model has."""

from __future__ import annotations

import pytest

from treadle.models import windows
from treadle.models.windows import MAX_LEARNT, learn, window_of


@pytest.fixture(autouse=True)
def _nothing_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_learnt", {})


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-4-32k", 32_768),
        ("gpt-4-1106-preview", 128_000),
        ("gpt-4-turbo-2024-04-09", 128_000),
        ("gpt-4.1-mini-2025-04-14", 1_047_576),
        ("gpt-4o-mini", 128_000),
        ("chatgpt-4o-latest", 128_000),
        ("ft:gpt-4o-2024-08-06:org::abc", 128_000),
        ("gpt-35-turbo-16k", 16_385),
        ("o1-mini-2024-09-12", 128_000),
        ("o3", 200_000),
        ("openai/o4-mini-high", 200_000),
        ("openai/gpt-5", 272_000),
        ("azure/gpt-5.1-2025-11-13", 272_000),
        ("gpt-5-chat-latest", 128_000),
        ("gpt-5.4-mini", 272_000),
        ("gpt-5.6-luna", 922_000),
        ("openai/gpt-oss-120b:free", 131_072),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("openrouter/anthropic/claude-opus-4.6", 1_000_000),
        ("claude-sonnet-4-6", 1_000_000),
        ("claude-haiku-4-5@20251001", 200_000),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("anthropic.claude-opus-4-7", 1_000_000),
        ("claude-2.1", 200_000),
        ("claude-2.0", 100_000),
        ("gemini-2.5-pro", 1_048_576),
        ("models/gemini-1.5-pro-latest", 2_097_152),
        ("google/gemini-3-pro-preview:nitro", 1_048_576),
        ("projects/p/locations/l/publishers/google/models/gemini-2.0-flash-001", 1_048_576),
        ("google/gemma-3-27b-it", 131_072),
        ("mistral-large-latest", 256_000),
        ("mistral.mistral-large-2402-v1:0", 32_768),
        ("mistralai/mistral-small-3.2-24b-instruct", 128_000),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 32_768),
        ("grok-4-0709", 256_000),
        ("x-ai/grok-4-fast:free", 2_000_000),
        ("grok-4-1-fast-reasoning", 2_000_000),
        ("grok-3-mini", 131_072),
        ("deepseek-chat", 1_000_000),
        ("deepseek-ai/DeepSeek-R1-0528", 128_000),
        ("deepseek.v3-v1:0", 128_000),
        ("deepseek/deepseek-v4-pro", 1_000_000),
        ("accounts/fireworks/models/llama-v3p1-405b-instruct", 128_000),
        ("accounts/fireworks/models/deepseek-v3p1", 128_000),
        ("@cf/meta/llama-3.1-8b-instruct", 128_000),
        ("meta-llama/Llama-3.3-70B-Instruct-Turbo", 128_000),
        ("meta.llama3-1-70b-instruct-v1:0", 128_000),
        ("llama3-8b-8192", 8_192),
        ("qwen/qwen3-235b-a22b-instruct-2507", 262_144),
        ("Qwen/Qwen3-32B", 40_960),
        ("qwen3-coder-plus", 1_000_000),
        ("Qwen/Qwen2.5-72B-Instruct", 32_768),
        ("moonshotai/kimi-k2-0905", 262_144),
        ("kimi-k2-0711-preview", 131_072),
        ("moonshot-v1-8k", 8_192),
        ("z-ai/glm-4.6", 202_752),
        ("zai-org/GLM-4.5-Air", 131_072),
        ("MiniMaxAI/MiniMax-M2.5", 196_608),
        ("amazon.nova-lite-v1:0", 300_000),
        ("cohere.command-r-plus-v1:0", 128_000),
        ("command-a-03-2025", 256_000),
        ("perplexity/sonar-pro", 200_000),
        ("microsoft/phi-4", 16_384),
        ("gpt-oss:120b-cloud", 131_072),
        (" GPT-4O ", 128_000),
    ],
)
def test_a_model_is_known_by_any_of_its_names(model: str, window: int) -> None:
    assert window_of(model) == window


@pytest.mark.parametrize(
    "model",
    [
        "",
        "/",
        "my-deployment",
        "m",
        "gpt",
        "openai/",
        "scripted:/tmp/script.jsonl",
        "no-gpt-4o",
        "gptq-model",
        # What a local server takes is what it was started with.
        "llama3.1:8b",
        "qwen3:latest",
        "gemma3:27b-it-qat",
        "gemma3n:e4b",
        "qwen3:30b-a3b-instruct-2507-q4_K_M",
        "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M",
    ],
)
def test_a_model_that_nobody_knows_has_no_window(model: str) -> None:
    assert window_of(model) is None


def test_what_an_endpoint_said_comes_before_the_table() -> None:
    learn("openai/gpt-4o", 64_000)
    learn("llama3.1:8b", 4_096)
    assert window_of(" OpenAI/GPT-4o") == 64_000
    assert window_of("gpt-4o") == 128_000  # it was said of the one at that aggregator
    assert window_of("llama3.1:8b") == 4_096


def test_what_was_said_last_counts() -> None:
    learn("m", 8_192)
    learn("m", 32_768)
    assert window_of("m") == 32_768


@pytest.mark.parametrize("figure", [-1, 0, 3, 255])
def test_a_figure_that_can_be_no_window_is_not_learnt(figure: int) -> None:
    learn("gpt-4", figure)
    assert window_of("gpt-4") == 8_192


def test_a_program_that_makes_up_names_does_not_fill_the_memory() -> None:
    for number in range(MAX_LEARNT + 5):
        learn(f"m{number}", 8_192)
    assert len(windows._learnt) == MAX_LEARNT
    assert window_of("m4") is None
    assert window_of(f"m{MAX_LEARNT + 4}") == 8_192


def test_no_family_stands_in_the_table_twice() -> None:
    names = [name for group in windows._TABLE.values() for name in group.split()]
    assert len(names) == len(windows._BY_TOKENS)


def test_a_very_long_name_is_looked_up_in_no_time() -> None:
    assert window_of("openai-" * 20_000) is None
