"""Deletion and release of objects on the member, and what prevents either. It is the only package that deletes.

Obstacles are finalizers, CRDs in use, and objects that another Work took over.
"""
