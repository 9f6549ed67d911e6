"""Answers of a remote provider that are wrong, huge, slow or hostile."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from test_provider_remote import (
    KEY,
    SOON_S,
    assert_embedded,
    cancelled_after,
    closed_when_asked,
    embedder_for,
    seconds_until,
    texts_for,
)

from openclaw_mem_engine import cancellation
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed
from openclaw_mem_engine.providers.remote.transport import MAX_ANSWER_BYTES, RetryPolicy
from support import embed_server as faulty
from support.embed_server import Fault, bag_of_words, running_server
from support.remote import remote_embedder

# ---- hostile servers


def test_an_answer_in_drips_runs_out_of_time() -> None:
    with running_server(forever=faulty.drip(0.05)) as server:
        embedder = embedder_for(server, timeout_s=0.4)
        assert seconds_until(RequestFailed, embedder.embed_query, "x") < SOON_S


def test_a_reset_connection_is_tried_once_more() -> None:
    with running_server([faulty.reset()]) as server:
        assert embedder_for(server).embed_query("x") is not None
        assert len(server.requests) == 2
    with (
        running_server(forever=faulty.reset()) as server,
        pytest.raises(RequestFailed, match=r"no answer from .* after 2 tries"),
    ):
        embedder_for(server).embed_query("x")


def test_a_server_that_does_not_speak_http_is_quoted_without_the_key() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    seen = connection.recv(65536).split(b"Bearer ")[1][:60]
                    connection.sendall(b"220 mail " + seen + b"\r\n\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        embedder = remote_embedder(
            "openai", base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1", api_key=KEY
        )
        with pytest.raises(RequestFailed, match=r"no answer from .* after 2 tries: .*220 mail") as caught:
            embedder.embed_query("x")
        thread.join()
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY[:10] not in shown
    assert KEY[-10:] not in shown


def test_huge_answers_are_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server(forever=Fault(body="[" + " " * 3_000_000 + "]")) as server:
        body = embedder_for(server).transport.request("POST", "/embeddings", json={"input": ["x"]}, **_ONCE)
        assert len(body) == 3_000_002
        with pytest.raises(BadAnswer, match="more than 2 MB"):
            embedder_for(server).transport.request(
                "POST", "/embeddings", json={"input": ["x"]}, max_bytes=2 * 1024**2, **_ONCE
            )


_ONCE: dict[str, Any] = {"timeout_s": 5.0, "policy": RetryPolicy(max_retries=0)}


def test_compressed_answers_are_read_and_bombs_are_not() -> None:
    answer = {"data": [{"embedding": bag_of_words("x")}]}
    with running_server([faulty.gzipped(json.dumps(answer).encode())]) as server:
        embedder = embedder_for(server)
        assert_embedded(["x"], [embedder.embed_query("x")])
        server.forever = faulty.gzip_bomb(80)
        assert MAX_ANSWER_BYTES == 64 * 1024**2
        with pytest.raises(BadAnswer, match="more than 64 MB"):
            embedder.embed_query("x")
        server.forever = Fault(200, b"\x1f\x8b\x08 no", (("Content-Encoding", "gzip"),))
        with pytest.raises(BadAnswer, match="cannot be decompressed"):
            embedder.embed_query("x")
        server.forever = Fault(200, "{}", (("Content-Encoding", "gzip, gzip"),))
        with pytest.raises(BadAnswer, match="cannot be decompressed"):
            embedder.embed_query("x")
        # A refusal is cut, whatever it holds.
        server.forever = faulty.gzipped(b"so sorry " * 10_000_000, status=400)
        with pytest.raises(RequestFailed, match="so sorry"):
            embedder.embed_query("x")


def test_an_address_on_another_host_is_not_asked() -> None:
    with running_server() as other, running_server() as server:
        transport = embedder_for(server).transport
        with pytest.raises(BadAnswer, match="another host"):
            transport.request("GET", f"{other.base_url}/files", **_ONCE)
        assert transport.request("POST", f"{server.base_url}/embeddings", json={"input": ["x"]}, **_ONCE)
        assert other.requests == []


def test_a_proxy_of_the_environment_is_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as proxy:
        monkeypatch.setenv(
            "http_proxy", proxy.base_url.removesuffix("/v1").replace("//", "//me:pass%21word@")
        )
        embedder = remote_embedder("openai", base_url="http://embed.example/v1", api_key=KEY)
        assert embedder.host == "embed.example"
        assert embedder.embed_query("x") is not None
        assert proxy.requests[0].path == "http://embed.example/v1/embeddings"
        sent = proxy.requests[0].headers["proxy-authorization"]
        assert base64.b64decode(sent.removeprefix("Basic ")) == b"me:pass!word"
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
    embedder.close()
    with pytest.raises(ProviderError, match="of the kind 'socks5'; only http and https proxies"):
        embedder.embed_query("x")
    for other in ("socks5://me:secret/word@host", "secret://x", "socks5://me:a@secret/b@host"):
        monkeypatch.setenv("http_proxy", other)
        with pytest.raises(ProviderError, match="only http and https proxies") as caught:
            embedder.embed_query("x")
        assert "secret" not in str(caught.value)
    for broken in ("http://[::1", "http://me:secret@host:port"):
        monkeypatch.setenv("http_proxy", broken)
        with pytest.raises(ProviderError, match="proxy in the environment cannot be read") as caught:
            embedder.embed_query("x")
        assert "secret" not in str(caught.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of localhost, signed by themselves."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


def test_tls_is_spoken_and_checked(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server(certificate=certificate) as server:
        with pytest.raises(RequestFailed, match=r"no answer from localhost.*certificate verify failed"):
            embedder_for(server).embed_query("x")
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        embedder = embedder_for(server)
        texts = texts_for(300)
        assert_embedded(texts, embedder.embed_documents(texts))
        for fault in (faulty.hang(), faulty.drip()):
            server.forever = fault
            with cancelled_after(0.3) as cancel:
                assert seconds_until(Cancelled, embedder.embed_query, "x", cancel) < SOON_S
        closed_when_asked(server, embedder)
        assert seconds_until(Cancelled, embedder.embed_documents, texts) < SOON_S


def test_a_request_that_fails_because_it_is_closed_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_POLL_S", 60.0)  # the failure is seen before the flag is looked at
    with running_server(forever=faulty.drip()) as server:
        embedder = embedder_for(server)
        closed_when_asked(server, embedder)
        assert seconds_until(Cancelled, embedder.embed_query, "x") < SOON_S
        assert len(server.requests) == 1


def test_a_query_in_the_address_stays_behind_the_path() -> None:
    with running_server() as server:
        embedder = embedder_for(server, base_url=f"{server.base_url}/ü/%20?api-version=1")
        assert embedder.embed_query("x") is not None
        assert server.requests[0].path == "/v1/%C3%BC/%20/embeddings?api-version=1"
