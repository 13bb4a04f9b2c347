"""HTTP servers: access control, running, and the review page. The review itself is in ``review/``."""
