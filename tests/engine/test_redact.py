"""The list of key shapes: what is masked, what is not, in linear time, and that no secret is sent by HTTP."""

from __future__ import annotations

import base64
import json
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.providers.rerank import HttpReranker
from openclaw_mem_engine.redact import credentials, mask, redact
from support.embed_server import running_server
from support.goldens import golden
from support.remote import remote_embedder
from support.rerank_server import running_reranker

#: 40 letters and digits.
RANDOM = "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vWxYz12345"
HEX = "0123456789abcdef" * 4

#: Text before a secret, the secret, text after it.
SHAPES = {
    "github pat": ("", f"ghp_{RANDOM[:36]}", ""),
    "github oauth": ("", f"gho_{RANDOM[:36]}", ""),
    "github user": ("", f"ghu_{RANDOM[:36]}", ""),
    "github server": ("", f"ghs_{RANDOM[:36]}", ""),
    "github refresh": ("", f"ghr_{RANDOM[:36]}", ""),
    "github fine": ("", f"github_pat_{RANDOM}", ""),
    "gitlab": ("", "glpat-aB3dE5fG7hI9-K1lM_nO", ""),
    "gitlab deploy": ("", "gldt-aB3dE5fG7hI9-K1lM_nO", ""),
    "aws id": ("", "AKIAIOSFODNN7EXAMPLE", ""),
    "aws session id": ("", "ASIAIOSFODNN7EXAMPLE", ""),
    "aws secret after its id": ("id AKIAIOSFODNN7EXAMPLE, ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""),
    "aws secret": ("aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""),
    "aws secret in words": ("AWS secret is ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "."),
    "aws secret in json": ('"SecretAccessKey": "', "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", '"'),
    "stripe": ("", f"sk_live_{RANDOM[:24]}", ""),
    "stripe restricted": ("", f"rk_live_{RANDOM[:24]}", ""),
    "stripe hook": ("", f"whsec_{RANDOM[:32]}", ""),
    "openai": ("", f"sk-proj-{RANDOM}", ""),
    "anthropic": ("", f"sk-ant-api03-{RANDOM}", ""),
    "hugging face": ("", f"hf_{RANDOM[:34]}", ""),
    "replicate": ("", f"r8_{RANDOM[:37]}", ""),
    "xai": ("", f"xai-{RANDOM}{RANDOM}", ""),
    "groq": ("", f"gsk_{RANDOM}", ""),
    "google": ("", f"AIza{RANDOM[:35]}", ""),
    "google oauth": ("", f"ya29.a0{RANDOM}", ""),
    "google client": ("", f"GOCSPX-{RANDOM[:28]}", ""),
    "sendgrid": ("", f"SG.{RANDOM[:22]}.{RANDOM}xyz", ""),
    "mailgun": ("", f"key-{HEX[:32]}", ""),
    "npm": ("", f"npm_{RANDOM[:36]}", ""),
    "pypi": ("", f"pypi-AgEIcHlwaS5vcmc{RANDOM}", ""),
    "digitalocean": ("", f"dop_v1_{HEX}", ""),
    "vault": ("", f"hvs.CAESI{RANDOM}", ""),
    "slack": ("", "xoxb-123456789012-abcdefABCDEF", ""),
    "slack rotated": ("", f"xoxe.xoxp-1-{RANDOM}", ""),
    "slack hook": ("https://hooks.slack.com/services/", "T0AB1CD2E/B0AB1CD2E/aB3dE5fG7hI9jK1lM2nO4pQ6", ""),
    "discord bot": ("", "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs1", ""),
    "discord hook": ("https://discord.com/api/webhooks/123456789/", f"{RANDOM}-_{RANDOM}", ""),
    "telegram": ("", "123456789:AAabcdefghijklmnopqrstuvwxyz12345", ""),
    "jwt": ("", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{RANDOM}", ""),
    "bearer": ("Authorization: Bearer ", f"{RANDOM}/+x", ""),
    "basic": ("Authorization: Basic ", "dXNlcjpwYXNzd29yZA==", ""),
    "basic in json": ('"Authorization": "Basic ', "dXNlcjpwYXNzd29yZA==", '"'),
    "basic alone": ("header Basic ", "dXNlcjpwYXNzd29yZDEyMw==", ""),
    "curl": ("curl -u bob:", "hunter2-hunter2-hunter2", " https://h/"),
    "url": ("postgres://bob:", "hunter2-hunter2-hunter2", "@db:5432/x"),
    "url with at": ("redis://:", "p@ss-w0rd-and-m0re-of-it", "@h:6379"),
    "signature": ("https://h/c?se=2027&sig=", "aB3%2BdE5fG7hI9jK1lM2nO4pQ6", "&x=1"),
    "json": ('{"client_secret": "', "hunter2-hunter2-hunter2", '"}'),
    "passphrase": ("passphrase: ", "hunter2-hunter2-hunter2", ""),
    "slack app": ("", "xapp-1-A012345-678901234", ""),
}


@pytest.mark.parametrize(("before", "secret", "after"), SHAPES.values(), ids=SHAPES.keys())
def test_shapes_are_masked_and_counted(before: str, secret: str, after: str) -> None:
    for around in ("{}", "see {} there", "'{}'", '{{"k": "{}"}}', "a\n{}\nb", "(https://h/?x={})"):
        shown = redact(around.format(f"{before}{secret}{after}"))
        assert secret not in shown
        assert secret[8:-5] not in shown
    ((number, masked),) = credentials(f"x\n\nthen {before}{secret}{after}\ny")
    assert number == 3
    assert secret not in masked
    assert masked.startswith(f"then {before.split('AKIA')[0]}")
    assert masked.endswith(after)


@pytest.mark.goldens
@pytest.mark.parametrize("case", golden("sessions")["redaction"], ids=lambda case: case["in"][:30])
def test_redaction_is_that_recorded(case: dict[str, str]) -> None:
    assert redact(case["in"]) == case["out"]


def test_a_name_that_repeats_its_value_is_masked_by_position() -> None:
    assert redact("apikey=a") == "apikey=***"
    assert redact("TOKEN=TOKEN") == "TOKEN=***"


def test_known_secrets_go_first_and_whole() -> None:
    assert redact("key hunter2 and hunter22", ["hunter2", "hunter22", ""]) == "key *** and ***"
    assert mask("a" * 17) == "***"
    assert mask("abcdefghijklmnopqr") == "abcdef…opqr"


@given(st.text(alphabet="KEYTOKENsecret=:'\"\\ \n-BEGIN PRIVATE", max_size=200))
def test_redaction_takes_any_text(text: str) -> None:
    assert isinstance(redact(text), str)


@pytest.mark.parametrize("before", ["", "+", "> "], ids=["as it is", "in a diff", "quoted"])
@pytest.mark.parametrize("part", [slice(5), slice(5, 9), slice(5, None)], ids=["begin", "middle", "end"])
def test_no_line_of_a_private_key_is_shown_without_its_markers(part: slice, before: str) -> None:
    """So it is cut where a chunk ends: RSA keys of 4,096 bits are three."""
    written = base64.b64encode(random.Random(7).randbytes(2_350)).decode()
    lines = [written[start : start + 64] for start in range(0, len(written), 64)]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"]
    shown = redact("\r\n".join(before + line for line in ["one", *key, "two"][part]))
    assert not [line for line in lines if line[:40] in shown]
    assert shown.count(f"\n{before}…redacted…") >= 3


@pytest.mark.parametrize(
    "text",
    [
        "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08\n" * 3,
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n" * 3,
        "docs/Projects/Kitchen/Renovation/Walls/And/Doors/And/Windows/And/Lamps",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "the secret of commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
        "id 123e4567-e89b-12d3-a456-426614174000 and 01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "Basic understanding of things, basic responsibilities, Basic internationalization",
        "https://example.org:8080/@scope/x?y=a:b@c and ssh://git@github.com/x/y, mail bob@example.org",
        "docker run -u 1000:1000 x, sudo -u bob: no",
        "hf_hub_download_something_very_long and hf_transfer",
        "xai-grok-code-fast-1 r8_c fw_ glpat- gho_ SG.example.org.something AKIA akiaiosfodnn7example",
        "key-value-stores-and-other-things, keyboard, tokens of love",
        "eyJust.eyJoking.hello",
        "v1.2.3-rc1.abcdef.abcdefghijklmnopqrstuvwxyz1234",
        "at 12:34:56 the pump ran 123456 times, 2026-02-14T10:00:00Z",
        "docs/Projects/2024/Kitchen/Renovation/Plan4/Walls",
        '{"id": "3f786850e387550fdab836ed7e6dc881de23001b", "sessionKey": "agent:main:main"}',
        "npm run build, task-sk-1",
        "Keynote: tokens and secrets of cooking",
    ],
)
def test_false_friends_stay(text: str) -> None:
    assert redact(text) == text
    assert credentials(text) == []


HOSTILE: dict[str, Any] = {
    "schemes": "://" * 30_000,
    "users": "://a:" * 20_000,
    "colons": "://" + ":" * 100_000,
    "ats": "://:" + "@" * 100_000 + "/",
    "json names": '"' + "token" * 20_000,
    "json quotes": '"token' * 15_000,
    "web tokens": "eyJ" + "aaaaaaaa-eyJ" * 8_000,
    "web token parts": "eyJaaaaaaaa." * 8_000,
    "gitlab": "glpat-" * 16_500,
    "gitlab dashes": "glpat-" + "-" * 100_000,
    "sendgrid": "SG." * 30_000 + "a" * 20,
    "discord": "M" * 100_000,
    "discord dots": ("M" * 24 + ".") * 4_000,
    "basics": "Basic " * 16_500,
    "basic letters": "Basic " + "a" * 100_000,
    "users of curl": " -u " * 25_000,
    "user of curl": "-u " + "a" * 100_000,
    "secrets": "secret" * 16_500,
    "secret blanks": "secret " * 14_000,
    "aws": "AKIAIOSFODNN7EXAMPLE " * 4_500,
    "signatures": "?sig=" * 20_000,
    "headers": "Authorization:" * 7_000,
    "header blanks": "Authorization" + " " * 100_000,
    "hooks": "discord.com/api/webhooks/" + "1" * 100_000,
    "prefixes": "key-hf_sk_live_" * 6_500,
    "lines of keys": "\n+-> a1A" * 1_500 + ("+" * 70 + "\n") * 1_500,
    "long name": "A" * 100_000,
    "names": "KEY" * 35_000,
    "blank run": "KEY" + " " * 100_000,
    "blank run after": "KEY=" + " " * 100_000,
    "open quotes": 'KEY="' * 20_000,
    "open value": 'KEY="' + "a" * 100_000,
    "json": '"token":' * 12_500 + '"' + "a" * 100_000,
    "begin": "-----BEGIN PRIVATE KEY-----" * 4_000,
    "begin names": "-----BEGIN " + "PRIVATE KEY " * 10_000,
    "digits": "1" * 100_000 + ":",
    "dashes": "sk-" + "-" * 100_000,
    "bearer": "Bearer " + "=" * 100_000,
    "bearers": "Bearer " * 15_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_masked_in_linear_time(text: str) -> None:
    # A quadratic pattern needs ten seconds for these; the bound leaves a linear one a tenfold of room.
    start = time.process_time()
    redact(text)
    credentials(text)
    assert time.process_time() - start < 3


SECRET = SHAPES["gitlab"][1]


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_no_secret_of_a_text_or_query_is_sent(provider: str) -> None:
    text = f"deploy with {SECRET} on Friday"
    with running_server() as server:
        embedder = remote_embedder(provider, base_url=server.base_url, api_key="pa-planted")
        (vector,) = embedder.embed_documents([text])
        assert vector is not None
        assert embedder.embed_query(f"what is {SECRET}") is not None
        embedder.close()
        sent = json.dumps([request.inputs for request in server.requests])
    assert SECRET not in sent
    assert "deploy with glpat-" in sent and "on Friday" in sent


def test_no_secret_is_sent_to_be_reranked() -> None:
    with running_reranker() as server:
        reranker = HttpReranker(server.base_url)
        reranker.scores(f"q {SECRET}", [f"a {SECRET}", "b"])
        reranker.close()
    assert SECRET not in json.dumps([body for _, _, body in server.asked])
