"""Who asks and what they may do: users, rights, bearer tokens, and the ports of what knows them."""
