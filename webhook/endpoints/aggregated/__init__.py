"""The aggregated API: answers of ``/v1`` about one namespace, which the API server of the hub proxies."""
