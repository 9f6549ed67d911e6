"""Our own tokenising, the same for every store: which words of a query are searched (a store receives a
:class:`LexicalQuery`, never the user's text), how CJK text is cut for the index, and the keyword extraction
of OpenClaw 2026.2 for the profile of that name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.ranking.pool import ListRow
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
#: Kinds of rows that a store derives from its chunks: forms of words (``named``: stemmed, with paths), and
#: packed lines (``providers.base.Lines``).
Derived = Literal["plain", "stemmed", "named", "lines"]
LABEL: Mapping[Derived, str] = {
    "plain": "plain words",
    "stemmed": "stemmed words",
    "named": "words with paths",
    "lines": "token ids of lines",
}


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """What to search for, in no store's query language. ``terms`` are alternatives (``or``), all required
    (``and``), or searched one after the other (``keywords``). Each is a tuple of neighbouring tokens (a
    phrase); one of a single token that ends in ``*`` is a prefix. ``index`` names the form of the words: as
    they are (``plain``), or stemmed with CJK bigrams (``stemmed``). ``name_weight`` above 0: the paths of
    notes are searched too, in the stemmed form, and a word there counts so many times."""

    terms: tuple[tuple[str, ...], ...]
    operator: Operator
    index: Literal["stemmed", "plain"]
    name_weight: float = 0.0

    @property
    def form(self) -> Derived:
        """The words that are searched."""
        return "named" if self.name_weight > 0 else self.index

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct tokens, for marking matches on screen."""
        return tuple(dict.fromkeys(token.rstrip("*") for term in self.terms for token in term))


class Common:
    """Terms that more than ``SHARE`` of at least ``FROM`` chunks hold take most of the time of a search, and
    say least. They are left out beside others that match; where all are common, the rarest stays."""

    SHARE, FROM = 0.3, 20_000


#: One candidate: ``raw`` is larger-is-better (negated bm25 >= 0, or cosine -1..1).
Scored = ListRow


@dataclass(frozen=True, slots=True)
class CandidateRows:
    """What one search of a store found: the best ``rows`` first (equal scores by chunk id); ``matched``, how
    many chunks matched in all, which is at least ``len(rows)``; ``query`` as the store's own search language
    has it ("" for vectors). Iterating gives the rows."""

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


def name_of(path: str) -> str:
    """The name by which a note is searched: its path without the suffix, segmented. Every tokeniser splits it
    at separators."""
    return segment(str(PurePosixPath(path).with_suffix("")))


def composed(text: str) -> str:
    """Text with its marks joined to their letters (NFC): macOS writes names, and people paste text, with
    marks apart, which would cut a word or a kana in two."""
    return unicodedata.normalize("NFC", text)


def build_query(
    text: str, form: Literal["or", "and"], index: Literal["stemmed", "plain"], name_weight: float = 0.0
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
    weight = name_weight if index == "stemmed" else 0.0
    return LexicalQuery(tuple(terms), form, index, weight) if terms else None


def build_keyword_query(text: str) -> LexicalQuery | None:
    """OpenClaw 2026.2's search without embeddings: its extracted keywords, looked for one by one; the whole
    text when none is left."""
    words = extract_keywords(text) or [text.strip()]
    terms = [tuple(re.findall(_PLAIN_WORD, word)) for word in words]
    kept = tuple(term for term in terms if term)
    return LexicalQuery(kept, "keywords", "plain") if kept else None


# -- keywords of OpenClaw 2026.2 ------------------------------------------------------------------------

# What release 2026.2.26 drops of words given alone; every other word is kept.
STOP_WORDS = frozenset(
    """
about above after ago agora ahora ajuda amanhã and antes anything are ayer ayuda because been before
being below between but can com como con could cuando cuándo cómo del depois despues después did does
donde during dónde earlier ela elas ele eles ellas ellos entre esa ese essa esse esta estar este
everything favor fazer find foi for foram from fue fueron get give haber hacer had has have help hoje
how hoy into just las later los mas may mañana meu might minha nos nosotras nosotros nothing now nós
onde ontem our over para pero please por porque porqué porquê quando que qué quê recentemente recently
recientemente ser she should show sobre something son stuff são tell tener ter that the them then these
they thing things this those through today tomorrow tus uma umas una unas under unos uns usted ustedes
você vocês was were what when where which while who why will with would yesterday you your é
أصبح أنا أو أين إلى ال الآن الى اليوم امس ب بالأمس بعد بل بين تكون تلك ثم ذلك ساعد صار على عن غدا فضلا
في قبل ك كان كانت كيف ل لكن لماذا مؤخرا ماذا متى مع ممكن من نحن هذا هذه هل هم هنا هناك هو هي و يكون يمكن
与 东西 之前 之后 也 了 事 事情 什么 今 今天 今日 他 他们 以前 以后 会 但 但是 何 你 你们 做 再 刚才 到
前 去 又 只 可以 吗 吧 呀 告诉 呢 和 哪个 哪些 啊 啦 嘛 因为 在 地 多少 她 如果 它 就 帮 帮忙 後 得 怎么
想 我 我们 或 所以 才 找 把 明天 明日 昨天 昨日 是 最近 有 来 现在 用 的 看 着 给 而 能 虽然 被 要 誰 让
说 请 过 还 这 这个 这些 那 那个 那些 都
あそこ あの ある あれ いつ いる から ここ こと この これ さっき しかし した して する そこ そして その
それ ため だけ できる です でも どう どこ どれ なぜ なる ます また まで もの より
가 가다 같이 거 거기 것 곳 과 그 그것 그녀 그들 그래서 그러나 그러면 그런데 그리고 까지 께 나 나는 나를
나중 내가 내일 너 너무 누구 는 대로 더 도 되다 등 때 또 또는 로 를 마다 만 많이 매우 무엇 뭐 밖에 보다
부탁 부터 분 수 아까 아니다 아주 어디 어떤 어떻게 어제 언제 없다 에 에게 에서 여기 오늘 오다 와 왜 우리
으로 은 을 의 이 이것 이다 있다 잘 저 저것 저기 저희 전에 정말 제발 좀 주다 중 지금 처럼 최근 하다
하지만 한테
""".split()
)

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
        return [word for word in (piece if stem not in STOP_WORDS else None, stem) if word]
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
    """Short ASCII words, numbers in ASCII digits, and runs of symbols say too little."""
    if re.fullmatch(_ASCII_LETTERS, word):
        return len(word) < 3
    if word.isascii() and word.isdigit():
        return True
    return all(unicodedata.category(c)[0] in "PS" for c in word)


def han_keywords(query: str) -> str:
    """A query with Chinese characters as OpenClaw 2026.2 hands it to QMD, whose index splits at spaces: the
    first 12 keywords of two characters or more. Any other query, and one without such, as it is."""
    if not re.search(_HAN, query):
        return query
    return " ".join([word for word in extract_keywords(query) if len(word) > 1][:12]) or query
