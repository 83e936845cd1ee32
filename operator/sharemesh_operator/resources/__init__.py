"""What custom resources mean, without a clock, a network or a loop: objects in, objects out."""
