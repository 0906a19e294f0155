"""Where an API server is and how to authenticate there, from a kubeconfig, a Pod or a token.

No requests are sent here.
"""
