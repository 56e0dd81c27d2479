"""What is excused: differences that are none, and values that cannot be judged. Each kind is one exemption."""
