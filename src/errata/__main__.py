"""`python -m errata` is the command `errata`."""

from errata.cli import main

main()
