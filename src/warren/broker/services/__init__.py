"""Services that the handlers of all protocols share."""
