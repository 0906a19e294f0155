"""Interface to the back ends that upgrade clusters, and the shape of their reports in requests and annotations."""
