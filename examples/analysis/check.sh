#!/bin/sh
# A check for approver.py: the shop answers through its public address. RUN and STAGE say what is being rolled out.
set -eu
echo "checking $STAGE of $RUN"
python - <<'END'
import urllib.request

with urllib.request.urlopen("https://shop.example.com/healthz", timeout=10) as answer:
    assert answer.status == 200
END
