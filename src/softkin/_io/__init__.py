"""Files: how they are written whole, read within limits, cached and refused."""
