"""What a change to the hub would lead to: the whole engine, applied to a hypothetical hub."""
