"""Who was refused what, who changed what, who looked at records: events, files (spec AUD)."""
