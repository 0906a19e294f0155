"""Actions that commands and the page offer alike: the writes to the hub, and their effect before they are executed."""
