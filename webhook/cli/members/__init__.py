"""Commands for one member: join, leave, cordon, drain, and its maintenance windows."""
