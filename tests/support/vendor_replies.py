"""Error replies of real endpoints, and what must be told of each.

Owns the table. The words, statuses and forms are the vendors' own, as people show them in public
bug reports and in documentation of 2023 to 2026; names of accounts and keys are left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from treadle.errors import (
    ContextOverflow,
    ModelAuth,
    ModelError,
    ModelRateLimited,
    ModelRefusedRequest,
    ModelUnreachable,
)


@dataclass(frozen=True)
class VendorReply:
    """One reply: an object is sent as JSON, a string as it is; `may_pass` is for rate limits."""

    vendor: str
    status: int
    body: Any
    kind: type[ModelError]
    data: dict[str, Any] = field(default_factory=dict)
    may_pass: bool = False

    @property
    def text(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


def overflow(
    vendor: str, status: int, body: Any, window: int | None = None, asked: int | None = None
) -> VendorReply:
    """A conversation that is too long, with what the reply counts."""
    data = {"window": window, "asked_tokens": asked}
    told = {name: figure for name, figure in data.items() if figure is not None}
    return VendorReply(vendor, status, body, ContextOverflow, told)


def slow_down(vendor: str, status: int, body: Any, seconds: float | None = None) -> VendorReply:
    """A rate limit that passes, after `seconds` where the reply says so."""
    data = {} if seconds is None else {"retry_after_seconds": seconds}
    return VendorReply(vendor, status, body, ModelRateLimited, data, may_pass=True)


def no_use_waiting(vendor: str, status: int, body: Any) -> VendorReply:
    """A quota, a balance or an allowance that waiting does not mend."""
    return VendorReply(vendor, status, body, ModelRateLimited)


def refused(vendor: str, status: int, body: Any) -> VendorReply:
    return VendorReply(vendor, status, body, ModelRefusedRequest, {"status": status})


def wrong_key(vendor: str, status: int, body: Any) -> VendorReply:
    return VendorReply(vendor, status, body, ModelAuth, {"status": status})


def trouble(vendor: str, status: int, body: Any) -> VendorReply:
    return VendorReply(vendor, status, body, ModelUnreachable, {"status": status}, may_pass=True)


def openai_form(message: str, type_: str = "invalid_request_error", code: Any = None) -> Any:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


OVERFLOWS = [
    overflow(
        "OpenAI",
        400,
        openai_form(
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 8227 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        8192,
        8227,
    ),
    overflow(
        "OpenAI-with-answer",
        400,
        openai_form(
            "This model's maximum context length is 4097 tokens. However, you requested 4120 "
            "tokens (3120 in the messages, 1000 in the completion). Please reduce the length of "
            "the messages or completion.",
            code="context_length_exceeded",
        ),
        4097,
        4120,
    ),
    overflow(
        "OpenAI-GPT-5",
        400,
        openai_form(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
            "428548 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        272_000,
        428_548,
    ),
    overflow(
        "OpenAI-one-message",
        400,
        openai_form(
            "Invalid 'messages[1].content': string too long. Expected a string with maximum "
            "length 1048576, but got a string with length 2097152 instead.",
            code="string_above_max_length",
        ),
    ),
    overflow(
        "Azure",
        400,
        {
            "error": {
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model. Please adjust "
                "your input and try again.",
            }
        },
    ),
    overflow(
        "Anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 211180 tokens > 200000 maximum",
            },
            "request_id": "req_011C",
        },
        200_000,
        211_180,
    ),
    overflow(
        "Anthropic-with-answer",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 178959 + 64000 > "
                "200000, decrease input length or `max_tokens` and try again",
            },
        },
        200_000,
        178_959,
    ),
    overflow(
        "Anthropic-413",
        413,
        {
            "error": {
                "type": "request_too_large",
                "message": "Request exceeds the maximum allowed number of bytes.",
            }
        },
    ),
    overflow(
        "Gemini",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200293) exceeds the maximum number of "
                    "tokens allowed (1048576).",
                    "errors": [{"domain": "global", "reason": "badRequest"}],
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        1_048_576,
        1_200_293,
    ),
    overflow(
        "Gemini-without-count",
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count exceeds the maximum number of tokens allowed "
                "(1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
        1_048_576,
    ),
    overflow(
        "Vertex",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "Unable to submit request because the input token count is 32825 "
                    "but model only supports up to 32768. Reduce the input token count and try "
                    "again.",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        32_768,
        32_825,
    ),
    overflow(
        "Mistral",
        400,
        {
            "object": "error",
            "message": "Prompt contains 40177 tokens and 0 draft tokens, too large for model with "
            "32768 maximum context length",
            "type": "invalid_request_prompt",
            "param": None,
            "code": "3051",
        },
        32_768,
        40_177,
    ),
    overflow(
        "Groq",
        400,
        {
            "error": {
                "message": "Please reduce the length of the messages or completion.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    overflow(
        "Cerebras",
        400,
        {
            "message": "Please reduce the length of the messages or completion. Current length is "
            "69553 while limit is 65536",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
        65_536,
        69_553,
    ),
    overflow(
        "Together",
        422,
        openai_form(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: "
            "80125 `inputs` tokens and 4096 `max_new_tokens`"
        ),
        4097,
        80_125,
    ),
    overflow(
        "Fireworks",
        400,
        {
            "error": {
                "object": "error",
                "type": "invalid_request_error",
                "code": "invalid_request_error",
                "message": "The prompt is too long: 40177, model maximum context length: 32767",
            }
        },
        32_767,
        40_177,
    ),
    overflow(
        "DeepSeek",
        400,
        openai_form(
            "This model's maximum context length is 131072 tokens. However, you requested 351430 "
            "tokens (347334 in the messages, 4096 in the completion). Please reduce the length of "
            "the messages or completion.",
            code="invalid_request_error",
        ),
        131_072,
        351_430,
    ),
    overflow(
        "xAI",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains "
            "136973 tokens.",
        },
        131_072,
        136_973,
    ),
    overflow(
        "Cohere",
        400,
        {
            "id": "5c2e",
            "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 "
            "- received 4292. Try using a shorter prompt, or enabling prompt truncating.",
        },
        4081,
        4292,
    ),
    overflow(
        "OpenRouter",
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 200000 tokens. However, you "
                "requested about 264437 tokens (262437 of text input, 2000 in the output). Please "
                'reduce the length of either one, or use the "middle-out" transform to compress '
                "your prompt automatically.",
                "code": 400,
                "metadata": {"provider_name": None},
            }
        },
        200_000,
        264_437,
    ),
    overflow(
        "OpenRouter-passed-on",
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"message":"Input length 131393 exceeds the maximum allowed input '
                    'length of 131040 tokens."}',
                    "provider_name": "Poolside",
                },
            }
        },
        131_040,
        131_393,
    ),
    overflow(
        "OpenRouter-402",
        402,
        {
            "error": {
                "message": "Prompt tokens limit exceeded: 36163 > 29652. To increase, visit "
                "https://openrouter.ai/settings/credits and upgrade to a paid account",
                "code": 402,
            }
        },
        29_652,
        36_163,
    ),
    overflow("Bedrock", 400, {"message": "Input is too long for requested model."}),
    overflow(
        "Bedrock-Anthropic",
        400,
        {
            "message": "The model returned the following errors: prompt is too long: 200049 "
            "tokens > 200000 maximum"
        },
        200_000,
        200_049,
    ),
    overflow(
        "Ollama",
        400,
        openai_form("prompt too long; exceeded max context length by 100918 tokens"),
    ),
    overflow("Ollama-500", 500, {"error": "the input length exceeds the context length"}),
    overflow(
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "request (14429 tokens) exceeds the available context size (8192 "
                "tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 14429,
                "n_ctx": 8192,
            }
        },
        8192,
        14_429,
    ),
    overflow(
        "llama.cpp-500",
        500,
        {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size. try increasing the "
                "context size or enable context shift",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 1407,
                "n_ctx": 256,
            }
        },
        256,
        1407,
    ),
    overflow(
        "llama-cpp-python",
        400,
        openai_form("Requested tokens (2285) exceed context window of 2048"),
        2048,
        2285,
    ),
    overflow(
        "vLLM",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 16384 tokens. However, you "
            "requested 19591 tokens (9591 in the messages, 10000 in the completion). Please "
            "reduce the length of the messages or completion. None",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        16_384,
        19_591,
    ),
    overflow(
        "vLLM-new",
        400,
        {
            "error": {
                "message": "This model's maximum context length is 3 tokens. However, your "
                "request has 8 input tokens. Please reduce the length of the input messages. "
                "(parameter=input_tokens, value=8)",
                "type": "BadRequestError",
                "param": "input_tokens",
                "code": 400,
            }
        },
        None,  # what it names is not the window
        8,
    ),
    overflow(
        "vLLM-decoder",
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 10127) is longer than the maximum model length "
            "of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens "
            "plus multimodal tokens.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        8192,
        10_127,
    ),
    overflow(
        "LM-Studio",
        400,
        {
            "error": "Trying to keep the first 10136 tokens when context the overflows. However, "
            "the model is loaded with context length of only 7866 tokens, which is not enough. "
            "Try to load the model with a larger context length, or provide a shorter input."
        },
        7866,
        10_136,
    ),
    overflow(
        "LM-Studio-old",
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the "
            "context length. Try to load the model with a larger context length."
        },
    ),
    overflow(
        "TGI",
        422,
        {
            "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: "
            "1532",
            "error_type": "validation",
        },
        1024,
        1532,
    ),
    overflow(
        "SGLang",
        400,
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length (40960 "
            "tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        40_960,
        61_709,
    ),
    overflow(
        "SGLang-memory",
        400,
        {
            "object": "error",
            "message": "Input length (160062 tokens) exceeds the maximum allowed length (59862 "
            "tokens). Use a shorter input or enable --allow-auto-truncate.",
            "type": "BadRequestError",
            "code": 400,
        },
        59_862,
        160_062,
    ),
    overflow(
        "LiteLLM",
        400,
        openai_form(
            "litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicError - "
            '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too '
            'long: 209353 tokens > 199999 maximum"}}',
            code="400",
        ),
        199_999,
        209_353,
    ),
    overflow(
        "LiteLLM-429",
        429,
        openai_form(
            'litellm.RateLimitError: Ollama_chatException - {"error":"prompt too long; exceeded '
            'max context length by 286082 tokens"}',
            "throttling_error",
            "429",
        ),
    ),
    overflow(
        "Cloudflare",
        413,
        {
            "errors": [
                {
                    "message": "AiError: The estimated number of input and maximum output tokens "
                    "(155740) exceeded this model context window limit (128000).",
                    "code": 5021,
                }
            ],
            "success": False,
            "result": {},
            "messages": [],
        },
        128_000,
        155_740,
    ),
    overflow(
        "Cloudflare-vLLM",
        400,
        {
            "errors": [
                {
                    "message": "AiError: This model's maximum context length is 131072 tokens. "
                    "However, you requested 16000 output tokens and your prompt contains at least "
                    "115073 input tokens, for a total of at least 131073 tokens. Please reduce "
                    "the length of the input prompt or reduce max_tokens.",
                    "code": 8007,
                }
            ]
        },
        131_072,
        131_073,
    ),
    overflow(
        "Cloudflare-GLM",
        400,
        openai_form(
            "Requested token count exceeds the model's maximum context length of 256000 tokens. "
            "You requested a total of 256878 tokens: 31216 tokens from the input messages and "
            "225662 tokens for the completion."
        ),
        256_000,
        256_878,
    ),
    overflow(
        "GitHub-Models",
        413,
        {
            "error": {
                "code": "tokens_limit_reached",
                "message": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
                "details": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            }
        },
        8000,
    ),
    overflow(
        "GitHub-Copilot",
        400,
        {
            "error": {
                "message": "prompt token count of 138898 exceeds the limit of 64000",
                "code": "model_max_prompt_tokens_exceeded",
            }
        },
        64_000,
        138_898,
    ),
    overflow(
        "Moonshot",
        400,
        {
            "error": {
                "message": "Invalid request: Your request exceeded model token limit: 262144 "
                "(requested: 291351)",
                "type": "invalid_request_error",
            }
        },
        262_144,
        291_351,
    ),
    overflow(
        "DashScope",
        400,
        {
            "error": {
                "code": "invalid_parameter_error",
                "message": "<400> InternalError.Algo.InvalidParameter: Range of input length "
                "should be [1, 983616]",
                "param": None,
                "type": "invalid_request_error",
            },
            "request_id": "81a373d6",
        },
        983_616,
    ),
    overflow("Zhipu", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    overflow(
        "MiniMax",
        400,
        {
            "type": "error",
            "error": {
                "type": "bad_request_error",
                "message": "invalid params, context window exceeds limit (2013)",
            },
        },
    ),
    overflow(
        "MiniMax-native",
        400,
        {
            "base_resp": {
                "status_code": 2013,
                "status_msg": "invalid params, context window exceeds limit",
            }
        },
    ),
    overflow(
        "Volcengine",
        400,
        {
            "error": {
                "code": "InvalidParameter",
                "message": "Total tokens of image and text exceed max message tokens. Request id: "
                "0217",
                "param": "",
                "type": "BadRequest",
            }
        },
    ),
    overflow(
        "SiliconFlow",
        400,
        {
            "code": 20015,
            "message": "length of prompt_tokens (140212) must be less than max_seq_len (131072).",
            "data": None,
        },
        131_072,
        140_212,
    ),
    overflow(
        "watsonx",
        400,
        {
            "errors": [
                {
                    "code": "invalid_input_argument",
                    "message": "Invalid input argument for Model 'meta-llama/llama-2-70b-chat': "
                    "the number of input tokens 4098 cannot exceed the total tokens limit 4096 "
                    "for this model",
                }
            ],
            "trace": "f8a0",
            "status_code": 400,
        },
        4096,
        4098,
    ),
    overflow(
        "a-proxy-413",
        413,
        "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n</html>",
    ),
    overflow("no-body-413", 413, ""),
]

RATE_LIMITS = [
    no_use_waiting(
        "OpenAI-alone-too-large",
        429,
        openai_form(
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit "
            "30000, Requested 342389. The input or output tokens must be reduced in order to run "
            "successfully. Visit https://platform.openai.com/account/rate-limits to learn more.",
            "tokens",
            "rate_limit_exceeded",
        ),
    ),
    slow_down(
        "OpenAI",
        429,
        openai_form(
            "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit "
            "30000, Used 29000, Requested 2000. Please try again in 2s.",
            "tokens",
            "rate_limit_exceeded",
        ),
        2.0,
    ),
    no_use_waiting(
        "Groq-413",
        413,
        openai_form(
            "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` "
            "service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 14137, "
            "please reduce your message size and try again.",
            "tokens",
            "rate_limit_exceeded",
        ),
    ),
    slow_down(
        "Groq-day",
        429,
        openai_form(
            "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_x` "
            "service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 97050, "
            "Requested 3619. Please try again in 9m38.016s.",
            "tokens",
            "rate_limit_exceeded",
        ),
        578.016,
    ),
    slow_down(
        "Azure",
        429,
        {
            "error": {
                "code": "429",
                "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI "
                "API version 2024-08-01-preview have exceeded token rate limit of your current "
                "OpenAI S0 pricing tier. Please retry after 86400 seconds.",
            }
        },
        86_400.0,
    ),
    slow_down(
        "Anthropic",
        429,
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "message": "This request would exceed your organization's rate limit of 30,000 "
                "input tokens per minute. Please reduce the prompt length or the maximum tokens "
                "requested.",
            },
        },
    ),
    slow_down(
        "Gemini",
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota, please check your plan and "
                    "billing details.\n* Quota exceeded for metric: generativelanguage."
                    "googleapis.com/generate_content_paid_tier_input_token_count, limit: 1000000, "
                    "model: gemini-3-pro\nPlease retry in 33.820058115s.",
                    "status": "RESOURCE_EXHAUSTED",
                }
            }
        ],
        33.820058115,
    ),
    slow_down(
        "Vertex",
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "Resource has been exhausted (e.g. check quota).",
                    "status": "RESOURCE_EXHAUSTED",
                }
            }
        ],
    ),
    slow_down("Bedrock", 429, {"message": "Too many tokens, please wait before trying again."}),
    slow_down(
        "Mistral",
        429,
        {
            "object": "error",
            "message": "Service tier capacity exceeded for this model.",
            "type": "service_tier_capacity_exceeded",
            "param": None,
            "code": "3505",
        },
    ),
    slow_down(
        "Cerebras",
        429,
        {
            "message": "Tokens per minute limit exceeded - too many tokens processed.",
            "type": "too_many_tokens_error",
            "param": "quota",
            "code": "token_quota_exceeded",
        },
    ),
    slow_down(
        "Moonshot",
        429,
        {
            "error": {
                "message": "request reached organization TPD rate limit, current: 1506556, limit: "
                "1500000",
                "type": "rate_limit_reached_error",
            }
        },
    ),
    slow_down(
        "OpenRouter",
        429,
        {
            "error": {
                "message": "Provider returned error",
                "code": 429,
                "metadata": {
                    "raw": "deepseek/deepseek-chat-v3-0324:free is temporarily rate-limited "
                    "upstream. Please retry shortly, or add your own key",
                    "provider_name": "Chutes",
                },
            },
            "user_id": "user_x",
        },
    ),
    slow_down(
        "GitHub-Models",
        429,
        {
            "error": {
                "code": "RateLimitReached",
                "message": "Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please "
                "wait 5631 seconds before retrying.",
            }
        },
        5631.0,
    ),
    slow_down(
        "Zhipu",
        429,
        {"error": {"code": "1302", "message": "您的账户已达到速率限制,请您控制请求频率"}},
    ),
    slow_down(
        "Cohere",
        429,
        {"message": "You are using a Trial key, which is limited to 40 API calls / minute."},
    ),
]

QUOTAS = [
    no_use_waiting(
        "OpenAI",
        429,
        openai_form(
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        ),
    ),
    no_use_waiting(
        "Anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API. Please go "
                "to Plans & Billing to upgrade or purchase credits.",
            },
        },
    ),
    no_use_waiting(
        "DeepSeek", 402, openai_form("Insufficient Balance", "unknown_error", "invalid_request")
    ),
    no_use_waiting(
        "xAI",
        403,
        {
            "code": "The caller does not have permission to execute the specified operation",
            "error": "Your team has either used all available credits or reached its monthly "
            "spending limit. To continue making API requests, please purchase more credits.",
        },
    ),
    no_use_waiting(
        "OpenRouter",
        402,
        {
            "error": {
                "message": "This request requires more credits, or fewer max_tokens. You "
                "requested up to 65536 tokens, but can only afford 4000.",
                "code": 402,
            }
        },
    ),
    no_use_waiting(
        "Moonshot",
        429,
        {
            "error": {
                "message": "Your account is suspended due to insufficient balance, please "
                "recharge your account or check your plan and billing details",
                "type": "exceeded_current_quota_error",
            }
        },
    ),
    no_use_waiting(
        "Zhipu", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}
    ),
    no_use_waiting(
        "Cloudflare",
        429,
        {
            "errors": [
                {
                    "message": "AiError: AiError: you have used up your daily free allocation of "
                    "10,000 neurons, please upgrade to Cloudflare's Workers Paid plan",
                    "code": 4006,
                }
            ]
        },
    ),
    no_use_waiting(
        "Cohere",
        429,
        {"message": "You are using a Trial key, which is limited to 1000 API calls / month."},
    ),
]

WRONG_KEYS = [
    wrong_key(
        "OpenAI",
        401,
        openai_form("Incorrect API key provided: sk-...", code="invalid_api_key"),
    ),
    wrong_key(
        "xAI",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: ***. You can obtain an API key from "
            "https://console.x.ai.",
        },
    ),
    wrong_key(
        "Gemini",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "API key not valid. Please pass a valid API key.",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
    ),
    wrong_key(
        "Perplexity", 401, "<html>\r\n<head><title>401 Authorization Required</title></head></html>"
    ),
    wrong_key(
        "Google",
        403,
        [{"error": {"code": 403, "message": "Permission denied.", "status": "PERMISSION_DENIED"}}],
    ),
]

TROUBLES = [
    trouble("Anthropic", 529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}),
    trouble(
        "Gemini",
        503,
        [
            {
                "error": {
                    "code": 503,
                    "message": "The model is overloaded. Please try again later.",
                    "status": "UNAVAILABLE",
                }
            }
        ],
    ),
    trouble(
        "Moonshot",
        429,
        {
            "error": {
                "message": "The engine is currently overloaded, please try again later",
                "type": "engine_overloaded_error",
            }
        },
    ),
    trouble("TGI", 429, {"error": "Model is overloaded", "error_type": "overloaded"}),
    trouble(
        "Cloudflare",
        408,
        {"errors": [{"message": "AiError: AiError: Request timeout", "code": 3046}]},
    ),
    trouble("Cloudflare-edge", 502, "<html><title>502 Bad Gateway</title></html>"),
]

REFUSALS = [
    refused("Cerebras-no-body", 400, ""),
    refused(
        "OpenAI-answer-too-long",
        400,
        openai_form(
            "max_tokens is too large: 65536. This model supports at most 16384 completion tokens, "
            "whereas you provided 65536.",
            code="invalid_value",
        ),
    ),
    refused(
        "Bedrock-answer-too-long",
        400,
        {
            "message": "The maximum tokens you requested exceeds the model limit of 4096. Try "
            "again with a maximum tokens value that is lower than 4096."
        },
    ),
    refused(
        "OpenAI-call-id",
        400,
        openai_form(
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with "
            "maximum length 40, but got a string with length 52 instead.",
            code="string_above_max_length",
        ),
    ),
    refused(
        "Azure-content-filter",
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's "
                "content management policy.",
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
            }
        },
    ),
    refused(
        "FastAPI",
        422,
        {
            "detail": [
                {
                    "loc": ["body", "messages", 3, "content"],
                    "msg": "Input should be a valid string",
                    "type": "string_type",
                    "input": "why do I read: maximum context length exceeded, rate limit?",
                }
            ]
        },
    ),
    refused("Ollama", 404, openai_form('model "llama9" not found, try pulling it first')),
]

REPLIES = [*OVERFLOWS, *RATE_LIMITS, *QUOTAS, *WRONG_KEYS, *TROUBLES, *REFUSALS]
