"""Karmada's own controllers above the members of the fleet: what they write there is not imitated."""
