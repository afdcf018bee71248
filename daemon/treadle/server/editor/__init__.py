"""LSP's own features, by pygls as a tenant on our wire; bound when an editor first needs one."""
