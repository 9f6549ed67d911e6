"""Our own tokenising, the same for every store: which words of a query are searched (a store receives a
:class:`LexicalQuery`, never the user's text), how CJK text is cut for the index, and the keyword extraction
of OpenClaw 2026.2 for the profile of that name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from openclaw_mem_engine.sanitize import CJK

# Texts, not compiled: ``re`` compiles at first use, which takes milliseconds for a class of CJK characters.
_CJK_RUN = f"[{CJK}]+"
_WORD = rf"[{CJK}]+|[^\W{CJK}]+"
# Letters, numbers and the underscore; combining marks are left out, as the original's expression does.
_PLAIN_WORD = r"\w+"

_STOP_WORDS = frozenset(
    """
a an and are as at be been but by can could did do does for from had has have he her his how i if in
is it its me my of on or our she so than that the their them then there they this to was we were
what when where which who whom why will with would you your
""".split()
)

Operator = Literal["or", "and", "keywords"]


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """What to search for, in no store's query language. ``terms`` are alternatives (``or``), all required
    (``and``), or searched one after the other (``keywords``). Each is a tuple of neighbouring tokens (a
    phrase); one of a single token that ends in ``*`` is a prefix. ``index`` names the form of the words: as
    they are (``plain``), or stemmed with CJK bigrams (``stemmed``)."""

    terms: tuple[tuple[str, ...], ...]
    operator: Operator
    index: Literal["stemmed", "plain"]

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct tokens, for marking matches on screen."""
        return tuple(dict.fromkeys(token.rstrip("*") for term in self.terms for token in term))


class Scored(NamedTuple):
    """One candidate: ``raw`` is larger-is-better (negated bm25 >= 0, or cosine -1..1)."""

    chunk_id: str
    raw: float


@dataclass(frozen=True, slots=True)
class CandidateRows:
    """What one search of a store found: the best ``rows`` first (equal scores by chunk id); ``matched``, how
    many chunks matched in all, which is at least ``len(rows)``; and ``query`` as the store's own search
    language has it ("" for vectors). Iterating gives the rows."""

    rows: tuple[Scored, ...] = ()
    matched: int = 0
    query: str = ""

    def __iter__(self) -> Iterator[Scored]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def ranks_of(self, ids: Iterable[str]) -> dict[str, int]:
        """The 1-based ranks of chunks among the rows, by chunk id; those that are not there are absent."""
        wanted = set(ids)
        return {row.chunk_id: rank for rank, row in enumerate(self.rows, 1) if row.chunk_id in wanted}


def bigrams(run: str) -> list[str]:
    """Overlapping pairs of a CJK run; a single character is kept as it is."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def segment(text: str) -> str:
    """Text as the stemmed index stores it: each CJK run becomes its bigrams and its last character, so that
    a single character is found by prefix at any position; everything else is unchanged."""
    if text.isascii():
        return text
    return re.sub(_CJK_RUN, lambda m: f" {' '.join(bigrams(m[0]))} {m[0][-1]} ", composed(text))


def composed(text: str) -> str:
    """Text with its marks joined to their letters (NFC): macOS writes names, and people paste text, with
    marks apart, which would cut a word or a kana in two."""
    return unicodedata.normalize("NFC", text)


def build_query(
    text: str, form: Literal["or", "and"], index: Literal["stemmed", "plain"]
) -> LexicalQuery | None:
    """The lexical query of a user's text, or None when it holds no word. ``or`` leaves out stop words (unless
    nothing would be left); ``and`` keeps every word, as OpenClaw does. On the stemmed index a CJK run is its
    bigrams: alternatives in ``or``, one phrase in ``and``."""
    plain = index == "plain" or text.isascii()
    words = re.findall(_PLAIN_WORD, text) if plain else re.findall(_WORD, composed(text))
    if form == "or":
        words = [w for w in words if w.lower() not in _STOP_WORDS] or words
        words = list(dict.fromkeys(w.lower() for w in words))
    terms: list[tuple[str, ...]] = []
    for word in words:
        if plain or not re.fullmatch(_CJK_RUN, word):
            terms.append((word,))
        elif len(word) == 1:
            terms.append((word + "*",))
        elif form == "and":
            terms.append(tuple(bigrams(word)))
        else:
            terms.extend((pair,) for pair in bigrams(word))
    terms = list(dict.fromkeys(terms)) if form == "or" else terms
    return LexicalQuery(tuple(terms), form, index) if terms else None


def build_keyword_query(text: str) -> LexicalQuery | None:
    """OpenClaw 2026.2's search without embeddings: its extracted keywords, looked for one by one; the whole
    text when none is left."""
    words = extract_keywords(text) or [text.strip()]
    terms = [tuple(re.findall(_PLAIN_WORD, word)) for word in words]
    kept = tuple(term for term in terms if term)
    return LexicalQuery(kept, "keywords", "plain") if kept else None


# -- keywords of OpenClaw 2026.2 ------------------------------------------------------------------------

_ENGLISH = """
a about above after against all also among an and any anything are as at be been before being but by
can could did do does down during each earlier every everything find for from get give had has have
he help her hers him his how i if in is it its just last later me might mine into must my need no
nothing now of off on or our ours out over please recently shall she should show so some something
some someone soon stuff tell than through that the their theirs them then there these they thing
things this those to today tomorrow under until us was we were what when where which while who whom
whose why will with would yesterday you your yours
""".split()
_SPANISH = """
al algo ante antes aquel aqui como con cosa cosas cual cuando cuál de del desde donde el ella ellas
ellos en era es esa ese eso esta estas este esto estos está fue hace hacia han hasta hay hoy la las
le lo los luego mañana me mi mis muy más nos nosotros o para pero por porque que quien qué se ser si
sin sobre son su sus sí también te tiene todo tu un una unas uno unos usted y ya yo ayer ahora
""".split()
_PORTUGUESE = """
a agora ainda amanhã antes ao aos aquela aquele aquilo as até com coisa coisas como da das de dela
dele depois do dos e ela elas ele eles em entre era essa esse esta este eu foi foram há hoje isso
isto já lhe mais mas me meu minha muito na nas no nos nossa nosso não o onde ontem os ou para pela
pelo por porque qual quando que quem se sem ser seu sobre sua são também te tem tinha tu um uma você
vocês à às é
""".split()
_ARABIC = """
في من إلى على عن مع هذا هذه ذلك تلك التي الذي هو هي هم نحن أنا أنت كان
كانت ما ماذا متى أين كيف لماذا هل لا نعم أو و ثم قد كل بعض أمس اليوم غدا
الآن شيء
""".split()
_CHINESE = """
的 了 着 过 得 地 我 你 您 他 她 它 我们 你们 他们 这 那 这个 那个 这些 那些 是
在 有 和 与 或 但 因为 所以 如果 就 都 也 很 不 没 没有 要 会 能 可以 把 被 给
对 从 到 用 前 后 之前 之后 以前 以后 刚才 昨天 今天 明天 最近 现在 什么 怎么 怎样
哪 哪个 哪里 谁 多少 几 为什么 吗 呢 吧 啊 请 帮 帮我 找 看 说 告诉 东西 一下
一个
""".split()
_KOREAN = """
그 이 저 그것 이것 저것 그리고 그러나 하지만 또는 및 나 너 우리 저희 그들 는 은 을
를 의 에 에서 로 으로 와 과 도 무엇 뭐 언제 어디 누구 왜 어떻게 어떤 어제 오늘
내일 지금 최근 아까 있다 없다 하다 되다 것 거 좀 주세요 알려줘 찾아줘 보여줘
""".split()
_JAPANESE = """
の に は を が と で も や へ から まで より こと もの これ それ あれ この その
あの ここ そこ どこ だれ 誰 何 なに いつ なぜ どう どの する した して です ます
でした ました ある いる ない なる という として ください 教えて 昨日 今日 明日 最近 今
さっき
""".split()

STOP_WORDS = frozenset([*_ENGLISH, *_SPANISH, *_PORTUGUESE, *_ARABIC, *_CHINESE, *_KOREAN, *_JAPANESE])

# Longest first: 에서 must be tried before 에.
_PARTICLES = sorted(
    """
에서는 에게서 으로는 으로서 으로써 이라는 까지 부터 에서 에게 한테 으로 처럼 보다 마다 이나 라고 라는 하고
은 는 이 가 을 를 의 에 로 와 과 도 만
""".split(),
    key=len,
    reverse=True,
)
_KANA = "[\u3040-\u30ff]"
_HAN = "[\u4e00-\u9fff]"
_HANGUL = "[\uac00-\ud7af\u3131-\u3163]"
_ASCII_WORD = "[a-z0-9_]+"
_JAPANESE_PIECES = "[a-z0-9_]+|[\u30a0-\u30ff]+|[\u4e00-\u9fff]+|[\u3040-\u309f]{2,}"
_ASCII_LETTERS = "[a-z]+"


def extract_keywords(query: str) -> list[str]:
    """The keywords of a query in order of appearance, without repeats; may be empty."""
    found: dict[str, None] = {}
    for piece in _segments(query.lower().strip()):
        for word in _words_of(piece):
            if word not in STOP_WORDS and not _too_weak(word):
                found.setdefault(word)
    return list(found)


def _segments(text: str) -> list[str]:
    """Split on white space and Unicode punctuation (``_`` counts as such, symbols like ``=`` do not)."""
    spaced = "".join(" " if c.isspace() or unicodedata.category(c).startswith("P") else c for c in text)
    return spaced.split()


def _words_of(piece: str) -> list[str]:
    if re.search(_KANA, piece):
        words = []
        for part in re.findall(_JAPANESE_PIECES, piece):
            words.append(part)
            if re.match(_HAN, part):
                words.extend(part[i : i + 2] for i in range(len(part) - 1))
        return words
    if re.search(_HAN, piece):
        characters = re.findall(_HAN, piece)
        return characters + [a + b for a, b in pairwise(characters)]
    if re.search(_HANGUL, piece):
        stem = _korean_stem(piece)
        if piece in STOP_WORDS or (stem is not None and stem in STOP_WORDS):
            return []
        return [piece] if stem is None else [piece, stem]
    return [piece]


def _korean_stem(word: str) -> str | None:
    """The word without its longest trailing particle, when what is left is a word (Hangul needs two)."""
    for particle in _PARTICLES:
        if word.endswith(particle) and len(word) > len(particle):
            stem = word[: -len(particle)]
            if re.search(_HANGUL, stem):
                return stem if len(stem) >= 2 else None
            return stem if re.fullmatch(_ASCII_WORD, stem) else None
    return None


def _too_weak(word: str) -> bool:
    """Short ASCII words, bare numbers, and runs of symbols say too little."""
    if re.fullmatch(_ASCII_LETTERS, word):
        return len(word) < 3
    if word.isdigit():
        return True
    return all(unicodedata.category(c)[0] in "PS" for c in word)
