"""Files made a little wrong: bytes turned, cut, repeated, moved, and replaced by what readers stumble over."""

from collections.abc import Sequence
from random import Random

NASTY = [
    b"",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\t",
    b" ",
    b"  ",
    b",",
    b";",
    b"|",
    b'"',
    b"#",
    b"# ",
    b"# lacuner: ",
    b"# lacuner: {}",
    b'# lacuner: {"complete": true}',
    b'# lacuner: {"tokens": []}',
    b"-DOCSTART-",
    b"-DOCSTART- O",
    b"O",
    b"B-PER",
    b"I-O",
    b"I-",
    b"E-PER",
    b"S-",
    b"-",
    b"?",
    b"_",
    b"1",
    b"2",
    b"1-2",
    b"\xc2\xb2",
    b"\xd9\xa3",
    b"\xff",
    b"\xfe\xff",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x00",
    b"\x0c",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\udfff",
    b"\\ud83d\\ude00",
    b"\xf0\x9f\x98\x80",
    b"NaN",
    b"Infinity",
    b"-1",
    b"1e400",
    b"1e-400",
    b"9" * 30,
    b"9" * 5000,
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"[" * 200,
    b"[" * 3000,
    b'{"a":' * 200,
    b'{"a": [',
    b'"entities": []',
    b'"entities": 5',
    b'"entities": null',
    b'"spans": {"sc": []}',
    b'"label": ["a"]',
    b'"tokens": []',
    b'"score": "nan"',
    b'"tokens": [{"start": 0, "end": 1}]',
    b'"answer": "reject"',
    b'"text": ""',
    b"a" * 140_000,
    b"'''",
    b'"""',
    b"[a]",
    b"[[a]]",
    b"=",
    b"a.b = 1",
]
"""What has broken readers, here or elsewhere."""


def mutate(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """The content after one to four changes; ``others`` are files that pieces may come from."""
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        content = random.choice(_CHANGES)(content, others, random)
    return content


def _turn_a_bit(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    if not content:
        return content
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]


def _insert(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    place = random.randint(0, len(content))
    return content[:place] + random.choice(NASTY) + content[place:]


def _replace(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    begin, end = _range(content, random)
    return content[:begin] + random.choice(NASTY) + content[end:]


def _delete(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    begin, end = _range(content, random)
    return content[:begin] + content[end:]


def _repeat(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    begin, end = _range(content, random)
    return content[:end] + content[begin:end] + content[end:]


def _cut_off(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    return content[: random.randint(0, len(content))]


def _splice(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(others)
    begin, end = _range(other, random)
    place = random.randint(0, len(content))
    return content[:place] + other[begin:end] + content[place:]


def _move_a_line(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    lines = content.split(b"\n")
    line = lines.pop(random.randrange(len(lines)))
    lines.insert(random.randint(0, len(lines)), line)
    return b"\n".join(lines)


def _swap_line_ends(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    return content.replace(b"\n", random.choice([b"\r", b"\r\n", b"\n\n", b" \n"]))


def _replace_everywhere(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    begin, end = _range(content, random)
    piece = content[begin:end][:8]
    return content.replace(piece, random.choice(NASTY[:60])[:8], 50) if piece else content


def _range(content: bytes, random: Random) -> tuple[int, int]:
    begin = random.randint(0, len(content))
    return begin, min(len(content), begin + random.choice([0, 1, 1, 2, 5, 20, 100]))


_CHANGES = [
    _turn_a_bit,
    _insert,
    _insert,
    _replace,
    _replace,
    _delete,
    _repeat,
    _cut_off,
    _splice,
    _move_a_line,
    _swap_line_ends,
    _replace_everywhere,
]
