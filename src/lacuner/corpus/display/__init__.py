"""Display of texts with their entities: in pages, notebooks and terminals, with one color per label."""
