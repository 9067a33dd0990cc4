"""Arrow data between stages: schemas, columns, packs, operators' output."""
