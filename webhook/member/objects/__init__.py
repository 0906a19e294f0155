"""The objects of a Work and their owners.

Decoded manifests, owner references, AppliedWorks, and the ledger of applied objects, without apply and deletion.
"""
