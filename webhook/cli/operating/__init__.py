"""Commands that run or install harbormaster: processes, certificates, roles, settings and checks."""
