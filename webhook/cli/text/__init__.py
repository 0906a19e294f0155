"""Text formats that know no Kubernetes object: tables, documents, YAML and JSONPath.

The formats of one command (SARIF, Markdown, iCalendar) live beside that command.
"""
