"""Work on many items: an ordered map over processes, and files cut into shards whose results a second run skips."""
