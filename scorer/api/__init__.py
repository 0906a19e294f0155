"""The objects of the wire: models, the grammars of their texts, and the CRDs generated from them."""
