"""The Helm charts as helm renders them."""
