"""Keys of servers have no place in parameters, which are written to manifests and beside every figure."""

from __future__ import annotations

import re
from typing import Any

from slmsafety.errors import InputError

# Keys in lower case, with _ for -. A count of tokens (max_new_tokens) and a name (api_key_env) are other words.
_KEYS = {
    *("api_key", "apikey", "x_api_key", "authorization", "proxy_authorization", "auth", "bearer", "cookie"),
    *("headers", "extra_headers", "default_headers", "credentials", "password", "passwd", "passphrase"),
    *("secret", "client_secret", "secret_key", "private_key", "access_key", "token", "access_token", "api_token"),
    *("auth_token", "bearer_token", "refresh_token", "session_token", "hf_token", "openai_api_key", "apikey_value"),
    *("pwd", "azure_key", "subscription_key", "huggingface_token"),
}
_KEY_ENDS = (
    *("_api_key", "_apikey", "_secret_key", "_access_key", "_subscription_key", "_private_key"),
    *("_password", "_passphrase", "_secret", "_credentials"),
    *("_auth_token", "_access_token", "_api_token", "_session_token", "_refresh_token", "_hub_token"),
)
# Below these, keys are words of a user's file: a label may be "secret".
_WORDS = {"map", "columns"}
_VALUES = re.compile(
    r"\A\s*sk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{12,}\s*\Z"  # as a value alone: a path may hold the letters
    r"|\bsk-[A-Za-z0-9_-]*(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{16,}"
    r"|\bhf_[A-Za-z0-9]{16,}|\bgsk_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}"
    r"|\b[Bb]earer\s+(?=[^\s]*\d)[\w.~+/=-]{8,}|\b[Bb]asic\s+[A-Za-z0-9+/]{12,}={0,2}\Z"
    r"|\bnvapi-(?=[\w-]*\d)[\w-]{30,}|\b(?:xai|glpat|pplx)-(?=\w*\d)\w{16,}|\b(?:r8|tgp_v1)_[A-Za-z0-9]{16,}"
    r"|://[^/\s:@]+:[^/\s@]+@|[?&](?:sig|signature|key|api[_-]?key|token|access_token)=[^&\s]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)


def refuse_secrets(given: Any) -> None:
    """Raise InputError, which never shows a value, for parameters that seem to hold a secret at any depth.

    A secret is known by its key (api_key, password, headers, ...) or by its own shape (sk-..., hf_..., Bearer ...).
    """
    todo: list[tuple[tuple[str, ...], Any]] = [((), given)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                name = str(key)
                if _VALUES.search(name):
                    raise _refusal(path, "a key that looks like a secret")
                if not _WORDS & set(path[-1:]) and _is_secret_key(name) and inner not in (None, "", False, True):
                    raise _refusal(path, f"the key '{name}', which may hold a secret")
                todo.append(((*path, name), inner))
        elif isinstance(value, list | tuple | set):  # YAML knows sets and bytes too
            todo += [((*path, str(number)), inner) for number, inner in enumerate(value)]
        elif isinstance(value, bytes):
            todo.append((path, value.decode("latin-1")))
        elif isinstance(value, str) and _VALUES.search(value):
            raise _refusal(path, "a value that looks like a secret")


def _is_secret_key(name: str) -> bool:
    plain = name.lower().replace("-", "_")
    return plain in _KEYS or plain.endswith(_KEY_ENDS)


def _refusal(path: tuple[str, ...], what: str) -> InputError:
    place = f"'{'.'.join(path)}' has" if path else "the study has"
    return InputError(f"{place} {what}; use api_key_env: the name of an environment variable that holds it")
