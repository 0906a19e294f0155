{{- /* Made from the code by `make charts`; a test compares. */}}
{{- define "harbormaster.settings.agent" -}}
{{- include "harbormaster.setting" (list "HARBORMASTER_CONNECTIONS" .Values.settings.connections "1000") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_HANDSHAKES_PER_ADDRESS" .Values.settings.handshakesPerAddress "200") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_HANDSHAKE_SECONDS" .Values.settings.handshakeSeconds "3") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_EXPIRATION_MODE" .Values.settings.expirationMode "Forceful") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_TEMPLATE_DO_NOT_DISRUPT" .Values.settings.templateDoNotDisrupt "true") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_NODE_DISRUPTION_MODE" .Values.settings.nodeDisruptionMode "Advise") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_NODE_DISRUPTION_KARPENTER_LEASE" .Values.settings.nodeDisruptionKarpenterLease "karpenter-leader-election") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_NODE_DISRUPTION_SPOT_TO_SPOT" .Values.settings.nodeDisruptionSpotToSpot "false") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_ALLOWED_KINDS" .Values.settings.allowedKinds "") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_BLOCKED_NAMESPACES" .Values.settings.blockedNamespaces "kube-*") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_HUB_TOKEN_SECONDS" .Values.settings.hubTokenSeconds "604800") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_HUB_TOKEN_RENEWAL_SECONDS" .Values.settings.hubTokenRenewalSeconds "3600") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_LOG_FORMAT" .Values.settings.logFormat "json") }}
{{- include "harbormaster.setting" (list "HARBORMASTER_LOG_LEVEL" .Values.settings.logLevel "info") }}
{{- end }}
