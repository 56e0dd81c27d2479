"""What is excused where two different programs are compared."""
