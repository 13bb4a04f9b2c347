"""HTTP servers: who may use them, how they run, and the review page. What is reviewed, and how, is in ``review/``."""
