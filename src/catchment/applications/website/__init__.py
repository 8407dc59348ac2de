"""Clicks on a web site, as the visits that they are part of."""
