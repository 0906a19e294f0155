"""The connection to a hub: kubeconfig, login, REST client, discovery, and the names of resources.

Click options live in `webhook.cli.options`.
"""
