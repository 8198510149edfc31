"""The recipes: the only list of them."""
