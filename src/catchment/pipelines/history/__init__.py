"""What commands do to a pipeline's past beside its run: compute it again, prune it, delete it."""
