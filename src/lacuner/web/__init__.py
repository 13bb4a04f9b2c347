"""Pages in the browser: reviewing what an audit has found."""
