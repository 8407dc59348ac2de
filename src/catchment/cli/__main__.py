"""`python -m catchment.cli`: the same command where no script is installed."""

from catchment.cli import main

main()
