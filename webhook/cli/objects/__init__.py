"""Commands that read and write objects of a hub, with the options and formats of kubectl."""
