"""What SARIF 2.1.0 demands of the members that are used (sections 3.13 to 3.56)."""

TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 1}
URI = {"type": "string", "format": "uri", "pattern": "^https://"}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}, "additionalProperties": False}
ARTIFACT = {
    "type": "object",
    "required": ["uri"],
    "properties": {"uri": {"type": "string", "pattern": r"^[^\s\\]+$"}},
    "additionalProperties": False,
}
REGION = {
    "type": "object",
    "required": ["startLine"],
    "properties": dict.fromkeys(("startLine", "startColumn", "endLine", "endColumn"), COUNT),
    "additionalProperties": False,
}
CHANGE = {
    "type": "object",
    "required": ["artifactLocation", "replacements"],
    "properties": {
        "artifactLocation": ARTIFACT,
        "replacements": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["deletedRegion"],
                "properties": {"deletedRegion": REGION, "insertedContent": MESSAGE},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "locations"],
    "properties": {
        "ruleId": TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": MESSAGE,
        "locations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "physicalLocation": {
                        "type": "object",
                        "required": ["artifactLocation"],
                        "properties": {"artifactLocation": ARTIFACT, "region": REGION},
                        "additionalProperties": False,
                    }
                },
                "additionalProperties": False,
            },
        },
        "fixes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["artifactChanges"],
                "properties": {
                    "description": MESSAGE,
                    "artifactChanges": {"type": "array", "minItems": 1, "items": CHANGE},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
DRIVER = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "version": TEXT,
        "informationUri": URI,
        "rules": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": TEXT, "shortDescription": MESSAGE, "helpUri": URI},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
INVOCATION = {
    "type": "object",
    "required": ["executionSuccessful"],
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message"],
                "properties": {"level": {"enum": ["none", "note", "warning", "error"]}, "message": MESSAGE},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
RUN = {
    "type": "object",
    "required": ["tool"],
    "properties": {
        "tool": {"type": "object", "required": ["driver"], "properties": {"driver": DRIVER}},
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "results": {"type": "array", "items": RESULT},
        "invocations": {"type": "array", "items": INVOCATION},
    },
    "additionalProperties": False,
}
LOG = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": RUN, "minItems": 1, "maxItems": 1},
    },
    "additionalProperties": False,
}
"""What the standard demands of these members; it knows more of them, and none of ours may be unknown to it."""
