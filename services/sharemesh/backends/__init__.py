"""What fills the ports."""
