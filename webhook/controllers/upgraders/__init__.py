"""Back ends that upgrade member clusters, and how the loop asks them."""
