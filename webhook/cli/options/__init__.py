"""Options that several subjects share, their shell completion, and the function that runs a command.

Options of one subject live in the `options` module of its folder.
"""
