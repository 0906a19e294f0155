"""Text formats that do not depend on Kubernetes objects: tables, documents and JSONPath.

The formats of one command (SARIF, Markdown, iCalendar) live alongside that command.
"""
