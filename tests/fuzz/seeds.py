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
        b'{"tokens": ["Ada", "left"], "entities": [[0, 1, "PER"]], "by_source": [{"source": "a", "entities": [[0, 1, "PER"]], '
        b'"complete": true}, {"source": "b", "non_entities": [[1, 2]], "annotated_labels": ["LOC"]}]}\n'
        b'{"text": "Ada left", "by_source": [{"source": "a", "entities": [[0, 3, "PER"]]}]}\n',
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
    "answers": [
        b'{"text": "Ada left New  York", "entities": [{"name": "Ada", "type": "PER"}, ["New York", "LOC"], {"entity": "Oslo", '
        b'"label": "LOC", "start": 0, "end": 4, "score": 0.5}], "id": 1}\n{"tokens": ["Ada"], "entities": {"PER": ["Ada"]}}\n',
        b'{"text": "Ada left", "answer": "```json\\n{\\"entities\\": {\\"PER\\": [\\"Ada\\",]}}\\n```"}\n'
        b'{"text": "Ada left", "response": "PER: Ada, Bo\\nLOC:"}\n{"text": "Ada", "output": "1. Ada | True | PER | x"}\n',
    ],
    "brat": [
        b'T1\tPER 0 3\tAda\nT2\tLOC 16 19;20 24\tNew York\n#1\tLacuner T1\t{"source": "human", "score": 0.5}\n'
        b'#2\tLacuner document\t{"complete": true, "non_entities": [[4, 8]], "extra": {"n": 1}}\n',
        b"T1\tPER 0 3\tAda\nT3\tMove 4 8\tleft\nE1\tMove:T3 Who:T1\nA1\tPast E1\nR1\tTo Arg1:T1 Arg2:T3\n*\tEquiv T1 T3\n"
        b"N1\tReference T1 Wikipedia:974\tAda\n#1\tAnnotatorNotes T1\tsure?\n",
    ],
    "pubtator": [
        b"12|t|Ada left\n12|a|She saw New York.\n12\t0\t3\tAda\tPER\tD1\n12\t17\t25\tNew York\tLOC\n12\tCID\tD1\tD2\n\n"
        b"13|t|\xf0\x9f\x98\x80 Bo\n13|a|\n13\t2\t4\tBo\tPER\t\tmore\n",
    ],
    "bioc": [
        b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection><source>x</source>'
        b'<date/><key/><document><id>1</id><infon key="a">b</infon><passage><infon key="type">title</infon><offset>0</offset>'
        b'<text>Ada left</text><annotation id="T1"><infon key="type">PER</infon><location offset="0" length="3"/>'
        b"<text>Ada</text></annotation></passage><passage><offset>9</offset><text>New &amp; York</text>"
        b'<annotation id="T2"><infon key="type">LOC</infon><infon key="lacuner">{"score": 1}</infon>'
        b'<location offset="9" length="3"/><location offset="15" length="4"/><text>New York</text></annotation></passage>'
        b'<relation id="R1"><infon key="type">x</infon><node refid="T1" role="a"/></relation></document></collection>\n',
        b"<collection><document><id>2</id><passage><offset>0</offset><sentence><offset>0</offset><text>Ada.</text>"
        b'<annotation id="1"><infon key="type">PER</infon><location offset="0" length="3"/></annotation></sentence>'
        b"<sentence><offset>5</offset><text>Bo.</text></sentence></passage></document></collection>",
    ],
    "conllu": [
        b"# newdoc\n# sent_id = a\n# text = Ada didn't go.\n1\tAda\tAda\tPROPN\t_\t_\t4\tnsubj\t_\tNER=B-PER\n"
        b"2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_\n2\tdid\tdo\tAUX\t_\t_\t4\taux\t_\tNER=O\n"
        b"3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\tNER=O\n3.1\tto\t_\t_\t_\t_\t_\t_\t_\t_\n"
        b"4\tgo\tgo\tVERB\t_\t_\t0\troot\t_\tNER=O|SpaceAfter=No\n5\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\tNER=?\n\n",
        b'# global.columns = ID FORM UPOS NER\n# lacuner: {"complete": true, "extra": {"k": 1}}\n'
        b"1\tAda\tPROPN\tB-PER\n2\tleft\tVERB\tO\n",
    ],
    "csv": [
        b'Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-PER\n,left,VBD,O\nSentence: 2,"""",``,O\n,York,NNP,B-LOC\n',
        b'sentence_id\tword\ttag\n1\tAda\tS-PER\n1\t"\tO\n2\tNew\tB-LOC\n2\tYork\tE-LOC\n',
        b"id,text,entities\na,Ada left,\"[(0, 3, 'PER')]\"\n"
        b'b,"New\r\nYork","[{""start"": 0, ""end"": 9, ""label"": ""LOC""}]"\n',
        b'"text","label","lacuner"\n'
        b'"Ada","[{""start"": 0, ""end"": 3, ""labels"": [""PER"", ""ORG""]}]","{""complete"": true}"\n',
    ],
}
ROWS = [
    b'{"tokens": ["Ada", "left"], "ner_tags": ["B-PER", "O"], "id": "1"}\n{"tokens": ["New"], "ner_tags": ["?"]}\n',
    b'{"tokens": ["Ada", "left"], "ner_tags": ["B-PER", "O"], "lacuner": "{\\"fields\\": {\\"complete\\": true}}"}\n',
]
SPACY_JSON = [
    b'["Ada left", {"entities": [[0, 3, "PER"]]}]\n["New York", {"entities": []}]\n',
    b'[["Ada left", {"entities": [[0, 3, "PER"]]}],\n["New York", {"entities": [[0, 8, "LOC"]]}]]\n',
    b'{"text": "Ada  left", "ents": [{"start": 0, "end": 3, "label": "PER"}], "tokens": [{"id": 0, "start": 0, "end": 3}, '
    b'{"id": 1, "start": 4, "end": 5}, {"id": 2, "start": 5, "end": 9}], "spans": {"sc": [{"start": 0, "end": 9, '
    b'"label": "X", "kb_id": ""}], "incorrect_spans": [{"start": 5, "end": 9, "label": ""}]}}\n',
]
CORPORA |= {"ner_tags": ROWS, "spacy_json": SPACY_JSON}
BRAT_TEXT = b"Ada left Paris, New York.\r\n\xf0\x9f\x98\x80\n"
"""The text that the annotation of brat is about."""
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
