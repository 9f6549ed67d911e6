"""Rerankers over HTTP and by a chat model: what is sent, scores from 0 to 1, and what is refused."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.providers.base import BadAnswer, Message, NotConfigured, RequestFailed, Reranker
from openclaw_mem_engine.providers.rerank import ChatReranker, HttpReranker
from support.rerank_server import running_reranker, share

TEXTS = ["lunch was good", "the router answers on vlan 40", "the router is grey"]
QUERY = "router vlan"


def test_scores_come_back_in_the_order_of_the_texts() -> None:
    with running_reranker() as server:
        reranker: Reranker = HttpReranker(server.base_url, model="m", api_key="secret-key-1")
        assert reranker.scores(QUERY, TEXTS) == [share(QUERY, text) for text in TEXTS]
        assert reranker.scores(QUERY, []) == []
        whole = HttpReranker(f"{server.base_url}/rerank/")
        assert whole.scores("grey \ud800", ["grey"]) == [0.5]
        assert (reranker.id, reranker.model, reranker.host) == ("http", "m", "")
        (path, headers, body), (path_of_whole, bare, sent) = server.asked
        assert path == path_of_whole == "/v1/rerank"
        assert headers["authorization"] == "Bearer secret-key-1"
        assert body == {"model": "m", "query": QUERY, "documents": TEXTS}
        assert "authorization" not in bare
        assert "model" not in sent
        reranker.close()
        reranker.close()
        whole.close()


def test_voyages_form_and_raw_logits_are_read() -> None:
    def data(_query: str, documents: list[str]) -> Any:
        return {"data": [{"index": i, "score": [-800.0, 0.0, 3.0][i]} for i in range(len(documents))]}

    with running_reranker(answer=data) as server:
        scores = HttpReranker(server.base_url, logits=True).scores(QUERY, TEXTS)
        assert scores[0] == pytest.approx(0.0, abs=1e-12)
        assert scores[1:] == [0.5, pytest.approx(1 / (1 + math.exp(-3)))]
        with pytest.raises(BadAnswer, match=r"the score -800, which is not from 0 to 1.*rerank\.logits"):
            HttpReranker(server.base_url).scores(QUERY, TEXTS)


GARBAGE: list[tuple[Any, str]] = [
    ("<html>", "not JSON .*a rerank API"),
    ([], "without a list of results"),
    ({"results": 7}, "without a list of results"),
    ({"results": []}, "0 scores for 3 texts"),
    ({"results": [{"index": 0, "relevance_score": 0.5}]}, "1 scores for 3 texts"),
    ({"results": [{"index": 3, "relevance_score": 0.5}]}, "without the number of its text"),
    ({"results": [{"index": True, "relevance_score": 0.5}]}, "without the number of its text"),
    ({"results": [{"index": 0, "relevance_score": 0.5}] * 2}, "without the number of its text"),
    ({"results": [{"index": 0, "relevance_score": "0.5"}]}, "not a number"),
    ({"results": [{"index": 0, "relevance_score": math.nan}]}, "not a number"),
    ({"results": [{"index": 0, "relevance_score": True}]}, "not a number"),
    ({"results": [{"index": 0}]}, "not a number"),
    ({"results": [{"index": 0, "relevance_score": 1.01}]}, "not from 0 to 1"),
]


@pytest.mark.parametrize(("answer", "said"), GARBAGE, ids=[json.dumps(answer)[:40] for answer, _ in GARBAGE])
def test_garbage_is_refused(answer: Any, said: str) -> None:
    with running_reranker(answer=lambda *_: answer) as server, pytest.raises(BadAnswer, match=said):
        HttpReranker(server.base_url).scores(QUERY, TEXTS)


def test_failures_are_tried_again_and_never_show_the_key() -> None:
    with running_reranker(statuses=[503]) as server:
        assert HttpReranker(server.base_url).scores("router", ["router"]) == [1.0]
        assert len(server.asked) == 2
    with running_reranker(statuses=[401]) as server:
        with pytest.raises(RequestFailed, match=r"http rerank failed: 401 .*Check the API key") as caught:
            HttpReranker(server.base_url, api_key="secret-key-1").scores("router", ["router"])
        assert "secret-key-1" not in str(caught.value)
        missing = HttpReranker(server.base_url, key_missing="The variable X is not set.")
        with pytest.raises(NotConfigured, match="X is not set"):
            missing.scores("router", ["router"])
        assert len(server.asked) == 1


def test_a_silent_server_ends_in_time_and_a_cancel_ends_it_at_once() -> None:
    with running_reranker(hangs=True) as server:
        with pytest.raises(RequestFailed, match="no answer"):
            HttpReranker(server.base_url, timeout_s=0.2).scores("router", ["router"])
        server.came.clear()
        cancel = threading.Event()

        def stop() -> None:
            server.came.wait(20)
            cancel.set()

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(Cancelled):
            HttpReranker(server.base_url, timeout_s=60).scores("router", ["router"], cancel)
        stopper.join()


class ScriptedChat:
    """Answers by what is in the passage."""

    id, model, host = "openai", "scripted", "chat.example"

    def __init__(self, answers: dict[str, str]) -> None:
        self._answers = answers
        self.asked: list[Sequence[Message]] = []
        self.closed = False

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        cancel: CancelToken | None = None,
    ) -> str:
        self.asked.append(messages)
        passage = messages[-1].text.partition("Passage:\n")[2]
        return self._answers[passage]

    def close(self) -> None:
        self.closed = True


def test_a_chat_model_is_asked_about_each_text_alone() -> None:
    chat = ScriptedChat({TEXTS[0]: "0", TEXTS[1]: " 95/100. ", TEXTS[2]: "40%"})
    reranker: Reranker = ChatReranker(chat)
    assert reranker.scores(QUERY, TEXTS) == [0.0, 0.95, 0.4]
    assert (reranker.id, reranker.model, reranker.host) == ("openai", "scripted", "chat.example")
    assert len(chat.asked) == 3
    assert all(sum(text in asked[-1].text for text in TEXTS) == 1 for asked in chat.asked)
    reranker.close()
    assert chat.closed


@pytest.mark.parametrize("answer", ["", "good", "101", "-5", "The score is 90", "nan", "9" * 400])
def test_an_answer_that_is_no_score_is_refused(answer: str) -> None:
    with pytest.raises(BadAnswer, match="did not answer with a number from 0 to 100"):
        ChatReranker(ScriptedChat({"text": answer})).scores(QUERY, ["text"])
