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
        b'{"text": "Ada", "annotations": [{"label": 3, "start_offset": 0, "end_offset": 3}], "cats": ["x"]}\n',
    ],
    "label_studio": [
        b'[{"id": 1, "data": {"text": "\xf0\x9f\x98\x80 Ada left", "id": 4}, "annotations": [{"id": 2, "completed_by": 1, '
        b'"was_cancelled": false, "result": [{"id": "a", "from_name": "label", "to_name": "text", "type": "labels", '
        b'"value": {"start": 2, "end": 5, "text": "Ada", "labels": ["PER"]}}, {"type": "relation", "from_id": "a"}]}], '
        b'"predictions": [], "drafts": []}]',
        b'{"data": {"article": "Ada left", "lacuner": {"tokens": [{"start": 0, "end": 3}], "non_entities": [[0, 3]]}}, '
        b'"predictions": [{"model_version": "lacuner", "score": 0.5, "result": [{"type": "labels", "score": 0.5, '
        b'"meta": {"lacuner": {"source": "x"}}, "value": {"start": 4, "end": 8, "labels": ["X", "Y"]}}]}]}\n'
        b'{"data": {"article": "Bo"}}\n',
        b'[\n {"text": "Ada left", "id": 1, "ner": [{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}],\n'
        b'  "annotator": 1, "annotation_id": 2, "lead_time": 1.5}\n]',
    ],
    "argilla": [
        b'[{"id": "1", "fields": {"text": "\xf0\x9f\x98\x80 Ada left"}, "metadata": {"a": 1}, "suggestions": {"entities": '
        b'{"value": [{"start": 2, "end": 5, "label": "PER"}], "score": [0.5], "agent": "m"}}, "responses": {"entities": '
        b'[{"value": [{"start": 3, "end": 6, "label": "PER"}], "user_id": "u", "status": "submitted"}]}, "vectors": {}}]',
        b'{"fields": [{"text": "Ada"}], "suggestions": [{"entities": {"value": [], "agent": "lacuner"}}], "id": ["x"]}',
        b'{"id": "1", "text": "Ada", "entities.responses": [[{"start": 0, "end": 3, "label": "PER"}]], '
        b'"entities.responses.users": ["u"], "entities.responses.status": ["draft"], "entities.suggestion": []}\n',
    ],
    "gliner": [
        b'[{"tokenized_text": ["Ada", "left", "Turin"], "ner": [[2, 2, "LOC"], [0, 0, "PER"]], "relations": [[0, 1, "x"]], '
        b'"ner_labels": ["PER", "LOC"], "ner_negatives": ["ORG"]}]',
        b'{"tokenized_text": ["Ada"], "ner": [[0, 0, "PER"]], "lacuner": {"entities": [{"source": "x"}], "complete": true}}\n'
        b'{"tokenized_text": ["Bo"], "ner": []}\n',
    ],
}
LISTS = [
    b"Ada Lovelace\tPER\nTurin\tLOC\texact\nNASA\tORG\tignore\n",
    b"3 4\nAda 0.1 0.2 0.3 0.4\nleft 1 2 3 4\nNew York 1e-3 0 0 0\n",
    "北京\n北京市\tLOC\n".encode(),
]
CONFIGS = [
    b'method = "uniform"\nencoder = "recurrent"\n[negatives]\nratio = 0.5\n[training]\nepochs = 3\nseed = 1\n',
    b'method = "scl-rai"\n[encoder]\nname = "recurrent"\nhidden = 10\n[contrast]\nweight = 1.0\n[trusted]\nfraction = 0.5\n',
]
