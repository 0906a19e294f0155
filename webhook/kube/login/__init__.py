"""Address and credentials of an API server, from a kubeconfig, a Pod or a token.

No requests are sent here.
"""
