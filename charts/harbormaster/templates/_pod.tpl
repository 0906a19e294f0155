{{/* What all our pods have in common, around their containers: (list $ component account). */}}
{{- define "harbormaster.podSpec" -}}
{{- $ := index . 0 -}}
{{- $component := index . 1 -}}
serviceAccountName: {{ index . 2 }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with $.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $.Values.pod.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.pod.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.pod.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $.Values.pod.spread }}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "harbormaster.selector" (list $ $component) | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels and annotations of a pod: (list $ component). */}}
{{- define "harbormaster.podMetadata" -}}
{{- $ := index . 0 -}}
labels:
  {{- include "harbormaster.labels" $ | nindent 2 }}
  app.kubernetes.io/component: {{ index . 1 }}
{{- with $.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $annotations := $.Values.podAnnotations }}
{{- include "harbormaster.hooks" $ }}
{{- if $.Values.webhook.secrets }}
{{- $annotations = merge (dict "checksum/hooks" (toJson $.Values.webhook.secrets | sha256sum)) $annotations }}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What a container of ours may do, which is next to nothing. */}}
{{- define "harbormaster.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The probes of every process: the plain listener answers before there is a certificate. */}}
{{- define "harbormaster.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  failureThreshold: 6
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  failureThreshold: 2
  timeoutSeconds: 2
{{- end }}

{{/* The environment of every process of the hub. */}}
{{- define "harbormaster.commonEnv" -}}
- name: PYTHONUNBUFFERED
  value: "1"
- name: PYTHONDONTWRITEBYTECODE
  value: "1"
- name: HARBORMASTER_NAMESPACE
  value: {{ .Release.Namespace | quote }}
- name: HARBORMASTER_HTTP_HOST
  value: {{ .Values.pod.listenAddress | quote }}
- name: HARBORMASTER_HTTP_PORT
  value: {{ .Values.metrics.port | quote }}
{{- end }}
