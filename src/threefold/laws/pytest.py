"""What a test file imports: `from threefold.laws.pytest import laws`."""

from threefold.laws.declare import Declared, laws

__all__ = ["Declared", "laws"]
