"""The handlers of the routes, one module for each kind of resource, and the schemas of their bodies."""
