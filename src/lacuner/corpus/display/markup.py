"""A text and its entities as HTML, for pages and notebooks: no scripts, no other files, readable without colors."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape

from lacuner.corpus.display.colors import DARK, HUES, LIGHT, Palette
from lacuner.corpus.display.marks import Closing, Mark, Opening, lay_out, marks_of_sentence, printable
from lacuner.corpus.sentence import Sentence


def _variables(values: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in values.items())


STYLE = f"""
.lacuner {{ {_variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ .lacuner {{ {_variables(DARK)} }} }}
.lacuner [data-color] {{
  --tint: hsl(var(--hue) var(--tint-s) var(--tint-l)); --strong: hsl(var(--hue) var(--strong-s) var(--strong-l));
}}
{" ".join(f'.lacuner [data-color="{number}"] {{ --hue: {hue} }}' for number, hue in enumerate(HUES))}
.lacuner [data-color="none"] {{ --tint: var(--none-tint); --strong: var(--none-strong) }}
.lacuner .text {{ white-space: pre-wrap; overflow-wrap: anywhere; line-height: 2.1; margin: 0 }}
.lacuner mark {{
  color: var(--on-tint); background: var(--tint); border-bottom: 3px solid var(--strong); border-radius: .3rem;
  padding: .16em .22em; -webkit-box-decoration-break: clone; box-decoration-break: clone;
}}
.lacuner mark mark {{ padding-block: .05em }}
.lacuner mark[data-color="none"] {{ border-bottom-style: dashed }}
.lacuner mark.suggested {{ outline: 3px solid var(--strong); border-bottom: 0; font-weight: 650 }}
.lacuner .tag {{
  display: inline-block; font-size: .68em; font-weight: 700; line-height: 1.35; letter-spacing: .03em; white-space: nowrap;
  color: var(--on-strong); background: var(--strong); border-radius: .25rem; padding: 0 .4em; margin: 0 .2em;
  vertical-align: .12em; user-select: none; -webkit-user-select: none;
}}
.lacuner .tag small {{ font-size: .9em; font-weight: 400; margin-left: .35em; letter-spacing: 0 }}
@media print {{
  .lacuner mark, .lacuner .tag {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; break-inside: avoid }}
}}
@media (forced-colors: active) {{ .lacuner mark, .lacuner .tag {{ forced-color-adjust: none }} }}
"""
"""Style of texts in an element of the class ``lacuner``."""

PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --faint: #5f5f5f; --line: #ddd }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --paper: #16181b; --faint: #a0a0a0; --line: #3a3d42 }
}
* { box-sizing: border-box }
body { font: 17px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 60rem;
  padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere }
h1 { font-size: 1.6rem; line-height: 1.2 } h2 { margin-top: 2.5rem; font-size: 1.25rem }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
a { color: inherit }
.about { color: var(--faint); font-size: .9rem; display: block }
@media print { body { max-width: none; padding: 0; font-size: 11pt } }
"""
"""Style of a page around the texts."""


def begin_page(title: str, style: str = "") -> str:
    """The beginning of a page, up to its content; :data:`END_PAGE` ends it."""
    name = escaped(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{PAGE_STYLE}{STYLE}{style}</style>\n</head>\n"
        '<body>\n<main class="lacuner">\n'
    )


END_PAGE = "</main>\n</body>\n</html>\n"


def escaped(text: str) -> str:
    """Escape text for use in an element or a quoted attribute."""
    return escape(printable(text))


def marked_up(text: str, marks: Iterable[Mark], palette: Palette) -> str:
    """The text with its marks, as content of an element."""
    return "".join(_pieces(text, marks, palette))


def text_block(text: str, marks: Iterable[Mark], palette: Palette) -> str:
    """The same as a block element with automatic text direction."""
    return f'<div class="text" dir="auto">{marked_up(text, marks, palette)}</div>'


def tag(label: str, palette: Palette) -> str:
    """A label in its color, for legends."""
    return f'<span data-color="{_color(label, palette)}"><bdi class="tag">{escaped(label)}</bdi></span>'


def notebook_output(blocks: Iterable[str], about: str = "") -> str:
    """Texts as the output of a notebook cell, with self-contained styles."""
    below = f"<p><small>{escaped(about)}</small></p>" if about else ""
    return f'<div class="lacuner"><style>{STYLE}</style>{"".join(blocks)}{below}</div>'


def sentence_block(sentence: Sentence, palette: Palette) -> str:
    """A sentence with its annotation."""
    return text_block(sentence.raw_text, marks_of_sentence(sentence), palette)


def _pieces(text: str, marks: Iterable[Mark], palette: Palette) -> Iterator[str]:
    for piece in lay_out(text, marks):
        if isinstance(piece, str):
            yield escaped(piece)
        elif isinstance(piece, Opening):
            yield _begin(piece.mark, palette)
        else:
            yield _end(piece)


def _begin(mark: Mark, palette: Palette) -> str:
    known = [mark.name, *([] if mark.score is None else [f"score {mark.score:.4f}"])]
    title = ", ".join([*known, *([] if mark.source is None else [str(mark.source)])])
    kind = ' class="suggested"' if mark.suggested else ""
    return f'<mark{kind} data-color="{_color(mark.label, palette)}" title="{escaped(title)}">'


def _end(closing: Closing) -> str:
    """The label and the score; for an interrupted mark, the label and a continuation sign."""
    mark = closing.mark
    score = "" if mark.score is None or not closing.last else f" <small>{mark.score:.2f}</small>"
    return f'<bdi class="tag"> {escaped(mark.name)}{score if closing.last else " …"}</bdi></mark>'


def _color(label: str, palette: Palette) -> str:
    number = palette.number(label)
    return "none" if number is None else str(number)
