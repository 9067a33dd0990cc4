"""Pictures of the documentation that programs draw from the code: `python -m tests.pictures`."""
