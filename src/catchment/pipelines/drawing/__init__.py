"""A pipeline as a picture: in the terminal, and as SVG."""
