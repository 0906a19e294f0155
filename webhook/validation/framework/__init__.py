"""The framework of all rules: rules, field errors, the context, tolerant reading, metadata and selectors."""
