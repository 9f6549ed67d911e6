"""Keys, addresses and headers of remote providers: where they are sent, and that no message shows them."""

from __future__ import annotations

import base64
import json
import logging
import time
import traceback
from typing import Any
from urllib.parse import quote

import pytest

from openclaw_mem_engine.providers.base import NotConfigured, RequestFailed
from openclaw_mem_engine.providers.registry import EmbedderSpec
from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder
from openclaw_mem_engine.providers.remote.endpoint import Quoting, host_of, secrets_in
from support.embed_server import Fault, Server, running_server
from support.remote import remote_embedder

KEY = "pa-Planted0Planted1Planted2Planted3+/x"


def embedder_for(server: Server, provider: str = "openai", **options: Any) -> RemoteEmbedder:
    return remote_embedder(provider, **{"base_url": server.base_url, "api_key": KEY, **options})


def test_without_a_key_nothing_is_sent_to_the_public_host() -> None:
    for provider, variable in (
        ("openai", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("voyage", "VOYAGE_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
    ):
        embedder = remote_embedder(provider, key_missing="the secret reference cannot be read.")
        assert embedder.embed_documents(["  "]) == [None]
        with pytest.raises(NotConfigured, match=rf"\(the secret reference cannot be read\).*{variable}"):
            embedder.embed_query("x")
        with pytest.raises(NotConfigured, match=variable):
            embedder.embed_documents(["x"])
        why = embedder.why_not()
        assert why is not None
        assert variable in why
        with pytest.raises(NotConfigured) as caught:
            embedder.check_key()
        assert str(caught.value) == why
        remote_embedder(provider, api_key="k").check_key()
        assert remote_embedder(provider, api_key="k").why_not() is None
        remote_embedder(provider, headers={"authorization": "Bearer k"}).check_key()
    remote_embedder("gemini", headers={"X-Goog-Api-Key": "k"}).check_key()
    remote_embedder("ollama").check_key()


def test_places_and_limits() -> None:
    assert remote_embedder("voyage").host == "api.voyageai.com"
    assert remote_embedder("ollama").host == ""
    assert remote_embedder("openai", base_url="http://[::1]:8080/v1").host == ""
    assert remote_embedder("openai", base_url="http://gpu.lan:8080/v1").host == "gpu.lan:8080"
    assert remote_embedder("gemini").max_input_bytes == 2048
    assert remote_embedder("voyage", model="voyage-3").max_input_bytes == 8000


def echoes(server_sees: str) -> list[str]:
    """Ways in which a server may repeat a secret."""
    data = server_sees.encode()
    return [
        server_sees,
        f"Bearer {server_sees}",
        f'{{"error": {{"message": "key {server_sees} is wrong"}}}}',
        json.dumps({"error": {"message": f"{server_sees[:20]} (cut off)"}}),
        json.dumps({"error": f"…{server_sees[-14:]}"}),
        quote(server_sees, safe=""),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
        data.hex(),
        server_sees[::-1],
        "x" * 63_990 + server_sees,
        (server_sees + " ") * 2000,
        f"\x1b[31m{server_sees}\x07\u202e",
        server_sees.replace("/", "\\/"),
    ]


@pytest.mark.parametrize("number", range(len(echoes(KEY))))
@pytest.mark.parametrize("provider", ["openai", "gemini", "ollama"])
def test_no_key_in_any_shape_is_told(provider: str, number: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running_server(forever=Fault(400, echoes(KEY)[number])) as server:
        base_url = server.base_url.replace("//", "//user:pass-in-url-123@")
        embedder = embedder_for(server, provider, base_url=base_url)
        with pytest.raises(RequestFailed) as caught:
            embedder.embed_documents(["x"])
    shown = "".join(traceback.format_exception(caught.value)) + repr(embedder) + repr(embedder.transport)
    shown += caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    for secret in (KEY, "pass-in-url-123"):
        for shape in (
            secret,
            secret[::-1],
            secret.encode().hex(),
            base64.b64encode(secret.encode()).decode(),
        ):
            pieces = {shape[place : place + 10] for place in range(len(shape) - 9)}
            assert not [piece for piece in pieces if piece in shown]
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 700


SECRET_ADDRESSES = [
    ("?code=Zx81qPlm77Tt0Wqa==", ["Zx81qPlm77Tt0Wqa=="]),
    (
        "?api-version=1&sig=8f3kDk20sLLq%2Bpw92jdkA%3D",
        ["8f3kDk20sLLq+pw92jdkA=", "8f3kDk20sLLq%2Bpw92jdkA%3D"],
    ),
    ("?Zx81qPlm77Tt0Wqa", ["Zx81qPlm77Tt0Wqa"]),
    ("#key=Zx81qPlm77Tt0Wqa", ["Zx81qPlm77Tt0Wqa"]),
    ("?a=1#Zx81qPlm77Tt0Wqa", ["Zx81qPlm77Tt0Wqa"]),
    ("/https://someone:Zx81%40qPlm77@api.example.com/v1", ["Zx81%40qPlm77", "Zx81@qPlm77"]),
    ("/https://Zx81qPlm77Tt0Wqa@api.example.com/v1", ["Zx81qPlm77Tt0Wqa"]),
]


@pytest.mark.parametrize(("rest", "secrets"), SECRET_ADDRESSES)
def test_secrets_in_the_address_are_not_told(rest: str, secrets: list[str]) -> None:
    said = " | ".join([f"no route /v1{rest}", *secrets, *(secret[::-1] for secret in secrets)])
    with running_server(forever=Fault(400, json.dumps({"error": {"message": said}}))) as server:
        embedder = embedder_for(server, base_url=server.base_url + rest)
        with pytest.raises(RequestFailed) as caught:
            embedder.embed_documents(["x"])
        with pytest.raises(RequestFailed) as of_query:
            embedder.embed_query("x")
        assert server.requests or "?" not in rest
    host = server.base_url.split("/")[2]
    away = remote_embedder("openai", base_url=f"https://gateway.example.com:8443/v1{rest}", api_key=KEY)
    assert away.host == "gateway.example.com:8443"
    assert host_of(embedder.base_url, "openai") == (host, True)
    shown = f"{caught.value}{of_query.value}{embedder!r}{embedder.transport!r}{away!r}{away.host}"
    shown += repr(EmbedderSpec("openai", base_url=away.base_url))
    for secret in secrets:
        for shape in (secret, secret[::-1]):
            assert not [shape[at : at + 8] for at in range(len(shape) - 7) if shape[at : at + 8] in shown]
    assert "no route" in str(caught.value)


def test_what_is_secret_in_an_address() -> None:
    assert secrets_in("https://host/openai/models@2/me@example.com/v1") == []
    assert secrets_in("https://someone:word@host/v1?a=1&b=x%20y") == ["word", "1", "x%20y", "x y"]
    assert secrets_in("https://token@host/v1") == ["token"]
    with running_server() as server:
        query = "api-version=2024-02-01"
        server.forever = Fault(404, '{"error": "api-version 2024-02-01 is not known"}')
        with pytest.raises(RequestFailed, match=r"api-version \*\*\* is not known"):
            embedder_for(server, base_url=f"{server.base_url}?{query}").embed_query("x")


def test_quotes_are_short_plain_and_keep_words() -> None:
    quoting = Quoting(["none"], ["Bearer verysecret-value", "short"])
    assert quoting.quote("model short\n not\tfound") == "model short not found"
    assert quoting.quote("none of it; verysecret-value; Bearer verysec") == "*** of it; ***; ***"
    assert len(quoting.quote("word " * 500)) == 301
    assert Quoting([""]).quote("all of it") == "all of it"
    start = time.process_time()
    Quoting([KEY], ["v" * 5000]).quote("v" * 100_000)
    assert time.process_time() - start < 1


def test_password_in_the_address_becomes_a_header() -> None:
    with running_server() as server:
        base_url = server.base_url.replace("//", "//me:p%40ss-word@")
        assert embedder_for(server, base_url=base_url, api_key="").embed_query("x") is not None
        assert embedder_for(server, base_url=base_url).embed_query("x") is not None
    first, second = (request.headers["authorization"] for request in server.requests)
    assert base64.b64decode(first.removeprefix("Basic ")) == b"me:p@ss-word"
    assert second == f"Bearer {KEY}"
