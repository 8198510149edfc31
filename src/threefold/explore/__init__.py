"""The report page served to this machine only, with panels that ask the library."""
