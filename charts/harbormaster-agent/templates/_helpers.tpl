{{/* What names of objects begin with. */}}
{{- define "harbormaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The same for objects without a namespace: agents never place what is named harbormaster or harbormaster-*. */}}
{{- define "harbormaster.clusterName" -}}
{{- $name := include "harbormaster.fullname" . -}}
{{- hasPrefix "harbormaster-" $name | ternary $name (printf "harbormaster-%s" $name) -}}
{{- end }}

{{- define "harbormaster.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: agent
{{- end }}

{{- define "harbormaster.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "harbormaster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: harbormaster
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "harbormaster.agentAccount" -}}
{{- default (include "harbormaster.fullname" .) .Values.serviceAccount.name -}}
{{- end }}

{{/* The annotation of an alert that leads to its section, up to the anchor. */}}
{{- define "harbormaster.runbook" -}}
{{- with .Values.metrics.prometheusRule.runbook }}runbook_url: {{ . }}{{ else }}runbook: docs/troubleshooting.md{{ end -}}
{{- end }}

{{- define "harbormaster.image" -}}
{{- with .Values.image -}}
{{- .digest | empty | ternary (printf "%s:%s" .repository (default $.Chart.AppVersion .tag)) (printf "%s@%s" .repository .digest) -}}
{{- end -}}
{{- end }}

{{/* One variable, where its value differs from the default: (list variable value default). */}}
{{- define "harbormaster.setting" -}}
{{- $value := index . 1 -}}
{{- $text := kindIs "string" $value | ternary $value (kindIs "slice" $value | ternary (kindIs "slice" $value | ternary $value list | join ",") (toRawJson $value)) -}}
{{- if and (ne $text (index . 2)) (not (kindIs "invalid" $value)) }}
- name: {{ index . 0 }}
  value: {{ $text | quote }}
{{- end -}}
{{- end }}

{{/* The rules for what placements place, by group. */}}
{{- define "harbormaster.applying" -}}
{{- $groups := dict -}}
{{- /* Unless it is off: with --reuse-values of an older chart, it is missing. */}}
{{- $usual := eq (toString .Values.rbac.applyControlPlane) "false" | ternary "harbormaster.applicableNarrow" "harbormaster.applicable" -}}
{{- range default (include $usual . | fromJsonArray) .Values.rbac.apply -}}
{{- $parts := splitn "." 2 . -}}
{{- $group := default "" $parts._1 -}}
{{- $_ := set $groups $group (append (get $groups $group | default list) $parts._0) -}}
{{- end -}}
{{- range $group, $plurals := $groups }}
  # objects that placements place on this member
  - apiGroups: [{{ $group | quote }}]
    resources: {{ toJson $plurals }}
    verbs: ["create", "delete", "get", "list", "patch", "update", "watch"]
{{- end }}
{{- end }}
