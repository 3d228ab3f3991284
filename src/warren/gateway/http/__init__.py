"""HTTP itself: connections, routes, schemas of bodies, authentication, and errors as problem documents."""
