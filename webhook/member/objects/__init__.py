"""Which objects belong to a Work and who owns them.

Decoded manifests, owner references, AppliedWorks, and the ledger of applied objects, without apply and deletion.
"""
