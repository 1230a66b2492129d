"""What tests share: an oracle, exact answers, broken twins, made-up data."""
