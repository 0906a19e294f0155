"""The interface to the back ends that upgrade clusters, and what they report in requests and annotations; no calls."""
