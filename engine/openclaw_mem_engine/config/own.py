"""Our own settings file, ``config.toml``. It is ours, so it is strict: an unknown key is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.env import user_config_dir
from openclaw_mem_engine.config.keys import RULES
from openclaw_mem_engine.config.layers import Entry, Layer
from openclaw_mem_engine.config.placeholders import absolute, secret_from
from openclaw_mem_engine.config.rules import Rule
from openclaw_mem_engine.config.secret import printable
from openclaw_mem_engine.config.settings import Origin
from openclaw_mem_engine.config.text_file import is_there, read_config_text
from openclaw_mem_engine.errors import ConfigError

#: Names our settings file; when it is set, the file must exist.
CONFIG_VARIABLE = "OPENCLAW_MEM_CONFIG"


def own_config_file(environ: Mapping[str, str], home: Path, cwd: Path) -> Path | None:
    """``$OPENCLAW_MEM_CONFIG``, else ``config.toml`` in the user's settings folder if there, else None."""
    named = environ.get(CONFIG_VARIABLE, "").strip()
    if named:
        return absolute(named, cwd, home)
    usual = user_config_dir(environ, home) / "config.toml"
    return usual if is_there(usual) else None


def own_layer(path: Path, environ: Mapping[str, str]) -> Layer:
    """The values of our settings file. Relative paths start at its folder.

    Raises ConfigError: a broken file (with line and column), an unknown key (with the nearest known one) or a
    value that does not fit.
    """
    layer = Layer()
    for key, value in _flat(_parsed(path)):
        rule = RULES.get(key)
        where = f"{path}: {key}"
        if rule is None:
            raise ConfigError(f"{path}: {printable(key)[:80]} is not a known key. {_advice(key)}")
        kept = _entry_value(rule.check(value, where), rule, where, environ)
        if kept is not None:
            layer.put(key, Entry(kept, Origin("toml", where), path.parent))
    return layer


def _parsed(path: Path) -> dict[str, Any]:
    import tomllib  # only when there is such a file: most users have none

    text = read_config_text(path)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # the parser's own error is one, and so is a number of 5,000 digits
        # The parser's words give line and column and never repeat a value; not chained, for the newest
        # versions keep the document in the exception.
        end = f"line {len(text.splitlines()) or 1}, the end of the file"
        words = str(error).splitlines()[0].replace("end of document", end)
        raise ConfigError(f"{path} is not valid TOML: {words}.") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply.") from None


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        # A table that is a value itself (headers) has a rule; any other only groups keys. None of ours goes
        # deeper than two tables, so a deeper one is an unknown key as a whole.
        if value == {} and any(known.startswith(f"{key}.") for known in RULES):
            continue  # a heading whose lines are all commented out
        if isinstance(value, dict) and value and key not in RULES and prefix.count(".") < 2:
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _advice(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, RULES, n=1, cutoff=0.6)
    if not near:
        # A right name in the wrong table: "min_score" for "query.min_score".
        near = [known for known in RULES if known.rpartition(".")[2] == key.rpartition(".")[2]]
    if near:
        return f"Did you mean {near[0]}?"
    return "`openclaw-mem config` lists the known keys."


def _entry_value(value: object, rule: Rule, where: str, environ: Mapping[str, str]) -> object:
    if rule.kind == "secret":
        return secret_from(str(value), environ, where)
    return tuple(value) if isinstance(value, list) else value
