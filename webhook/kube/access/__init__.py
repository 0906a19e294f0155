"""Authentication and authorization of callers by the API server.

TokenReviews, SubjectAccessReviews and the client CA.
"""
