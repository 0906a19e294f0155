"""Deletion and release of objects on the member, and what prevents either. Only this package deletes objects.

Obstacles are finalizers, CRDs in use, and objects that another Work took over.
"""
