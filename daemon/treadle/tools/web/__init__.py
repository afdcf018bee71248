"""What the tools of the web stand on: hosts and addresses, one pinned request, text of pages."""
