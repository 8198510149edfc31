"""`python -m threefold` is `threefold`."""

from threefold.cli.main import main

main()
