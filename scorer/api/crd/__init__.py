"""CustomResourceDefinitions: schemas, CEL rules, printer columns and tables, and pruning and defaulting by a schema."""
