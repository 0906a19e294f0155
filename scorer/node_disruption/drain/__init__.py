"""The drain of a node: which pods are evicted next, what holds others, and a preview.

A PodDisruptionBudget or an annotation can hold a pod.
"""
