"""What the handlers of admin APIs share."""
