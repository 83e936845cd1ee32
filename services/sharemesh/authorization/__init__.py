"""Who may call what: the permissions of each RPC, the checks, and the sentence of a refusal."""
