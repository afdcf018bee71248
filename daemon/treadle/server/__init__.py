"""The edge: the wire, dispatch, connections, and the handlers of each resource."""
