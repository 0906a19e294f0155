"""The Helm charts: what of them is made from the code, and what they are to say."""
