"""What developing this repository needs; not installed with the package.  Standard library only."""
