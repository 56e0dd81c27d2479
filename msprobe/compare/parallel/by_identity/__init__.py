"""The merge of dumps with modules, by the identity of each call."""
