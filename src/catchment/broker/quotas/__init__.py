"""Client quotas: limits on what single users, client ids and addresses may use."""
