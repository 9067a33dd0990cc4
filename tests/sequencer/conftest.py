from hypothesis import settings

# A shared machine may stop a test for a while; how long an example takes says nothing.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
