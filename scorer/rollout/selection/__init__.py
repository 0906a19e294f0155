"""Selection: which kinds may be placed, which objects of the hub a placement selects, and which fields are placed."""
