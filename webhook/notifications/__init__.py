"""What needs a person is told to somebody outside, by HTTP: a chat, a pager, whatever stands behind a URL."""
