"""Options that commands share: one declaration of each, their types, the help."""
