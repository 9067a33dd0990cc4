"""Arrow on the way of the data: schemas, columns, packs, what operators hand to the sink."""
