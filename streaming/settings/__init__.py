"""Words that tables of the configuration are made of; pydantic, no files."""
