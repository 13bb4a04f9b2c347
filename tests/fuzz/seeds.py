"""Files that are all right, and out of which others are made."""

CORPORA: dict[str, list[bytes]] = {
    "conll": [
        b"Ada\tB-PER\nLovelace\tI-PER\nleft\tO\n\nNew\tB-LOC\nYork\tI-LOC\n",
        b"-DOCSTART- -X- O O\n\nAda NNP I-NP S-PER\nleft VBD I-VP O\n\nNew NNP I-NP B-LOC\nYork NNP I-NP E-LOC\n",
        b'# lacuner: {"complete": true, "sources": ["human"], "extra": {"id": 3}}\nAda\tB-PER\nleft\t?\n\nBob\tO\n',
        b'"Ada",NNP,PER\n",",PUNCT,O\nBob,NNP,PER\n',
        b"# text = Ada left\n1\tAda\t_\tB-PER\n2\tleft\t_\tO\n\n1\tBob\t_\tO\n2\tsat\t_\tO\n",
    ],
    "jsonl": [
        b'{"tokens": ["Ada", "left"], "entities": [{"start": 0, "end": 1, "label": "PER", "score": 0.5}], '
        b'"complete": true, "id": 1}\n'
        b'{"tokens": ["New", "York"], "entities": [[0, 2, "LOC"]], "non_entities": [[0, 1]], "unknown_tokens": [1]}\n',
        b'{"text": "Ada left \xf0\x9f\x98\x80 York", "label": [[0, 3, "PER"]], "meta": {"a": [1.5, null]}}\n',
        b'{"text": "Ada left", "tokens": ["Ada", "left"], "token_offsets": [[0, 3], [4, 8]], "annotated_labels": ["PER"]}\n',
    ],
    "prodigy": [
        b'{"text": "Ada left", "tokens": [{"text": "Ada", "start": 0, "end": 3, "id": 0}, '
        b'{"text": "left", "start": 4, "end": 8, "id": 1}], "spans": [{"start": 0, "end": 3, "label": "PER", '
        b'"token_start": 0, "token_end": 0}], "answer": "accept"}\n',
    ],
    "doccano": [
        b'{"id": 1, "text": "\xf0\x9f\x98\x80 Ada left", "label": [[3, 6, "PER"]], "Comments": []}\n',
        b'{"text": "Ada", "entities": [{"id": 1, "label": "PER", "start_offset": 0, "end_offset": 3}], "relations": []}\n',
    ],
}
LISTS = [
    b"Ada Lovelace\tPER\nTurin\tLOC\texact\nNASA\tORG\tignore\n",
    b"3 4\nAda 0.1 0.2 0.3 0.4\nleft 1 2 3 4\nNew York 1e-3 0 0 0\n",
    "北京\n北京市\tLOC\n".encode(),
    b'name,type,case\n"Acme, Inc.",ORG,exact\nAda,PER,\n',
    b'{"name": "Ada", "type": "PER"}\n{"label": "LOC", "pattern": [{"LOWER": "new"}, {"LOWER": "york"}], "id": "ny"}\n',
    b'[{"label": "ORG", "pattern": "Apple"},\n {"surface": "Turin", "label": "LOC", "case": "ignore"}]\n',
    b"0.98\tmachine learning\n0.5\tdeep sea\n",
]
CONFIGS = [
    b'method = "uniform"\nencoder = "recurrent"\n[negatives]\nratio = 0.5\n[training]\nepochs = 3\nseed = 1\n',
    b'method = "scl-rai"\n[encoder]\nname = "recurrent"\nhidden = 10\n[contrast]\nweight = 1.0\n[trusted]\nfraction = 0.5\n',
]
