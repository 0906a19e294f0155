{{/* What names of objects begin with: with what follows it, a Service has at most 63 characters. */}}
{{- define "harbormaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The same for objects without a namespace: agents never place what is named harbormaster or harbormaster-*. */}}
{{- define "harbormaster.clusterName" -}}
{{- $name := include "harbormaster.fullname" . -}}
{{- or (eq $name "harbormaster") (hasPrefix "harbormaster-" $name) | ternary $name (printf "harbormaster-%s" $name) -}}
{{- end }}

{{- define "harbormaster.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "harbormaster.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: harbormaster
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "harbormaster.name" -}}
{{- default .Chart.Name .Values.nameOverride -}}
{{- end }}

{{/* The labels that select the pods of a component: never its version. (list $ component) */}}
{{- define "harbormaster.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ include "harbormaster.name" $ }}
app.kubernetes.io/instance: {{ $.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "harbormaster.loopAccount" -}}
{{- default (printf "%s-reconcile" (include "harbormaster.fullname" .)) .Values.reconcile.serviceAccount.name -}}
{{- end }}

{{/* The server runs as the loop where the loop is in it. */}}
{{- define "harbormaster.serveAccount" -}}
{{- if eq .Values.reconcile.mode "Server" -}}
{{- include "harbormaster.loopAccount" . -}}
{{- else -}}
{{- default (printf "%s-serve" (include "harbormaster.fullname" .)) .Values.serve.serviceAccount.name -}}
{{- end -}}
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

{{/* Whether policies are made: "" is no. */}}
{{- define "harbormaster.policies" -}}
{{- if and .Values.rbac.policies (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}yes{{ end -}}
{{- end }}

{{/* The users who may go beyond budgets, as a list of CEL within single quotes of YAML. */}}
{{- define "harbormaster.exemptUsers" -}}
{{- .Values.settings.enforcementExemptUsers | sortAlpha | toRawJson | replace "\",\"" "\", \"" | replace "'" "''" -}}
{{- end }}

{{/* The users who count as administrators, as further elements of a list of CEL within single quotes of YAML. */}}
{{- define "harbormaster.allowedUsers" -}}
{{- range .Values.settings.allowedUsers | default list | sortAlpha }}, {{ toRawJson . | replace "'" "''" }}{{ end -}}
{{- end }}

{{- define "harbormaster.hooksPath" -}}
{{- include "harbormaster.hooks" . -}}
{{- .Values.webhook.prefix -}}
{{- end }}

{{/*
Sets .Values.webhook.secrets, and .Values.webhook.prefix, what is before the path of each hook; renders nothing. All
templates include it before they read these: a random secret has to be the same in all objects of a rendering.

Without secrets in the values: those in the Secret of the release, which is kept; where there is none, a random one. Not
where no cluster is asked (helm template): each rendering would have another one.

The hooks are called below a secret once the Pods hold it. Until then they are called as before: Pods of an earlier
release answer 404 below a secret that they do not hold.
*/}}
{{- define "harbormaster.hooks" -}}
{{- $hooks := .Values.webhook -}}
{{- if not (hasKey $hooks "prefix") -}}
{{- $name := include "harbormaster.fullname" . -}}
{{- $kept := lookup "v1" "Secret" .Release.Namespace (printf "%s-hooks" $name) | dig "data" "secrets" "" | b64dec -}}
{{- $kept = regexFindAll "(?m)^[a-z0-9][a-z0-9-]{30,126}[a-z0-9]$" $kept -1 -}}
{{- $secrets := $hooks.secrets -}}
{{- if and $hooks.enabled (not $secrets) -}}
{{- $secrets = $kept -}}
{{- if and (not $secrets) (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "cluster-admin") -}}
{{- $secrets = list (randAlphaNum 48 | lower) -}}
{{- end -}}
{{- end -}}
{{- $prefix := "" -}}
{{- with $secrets -}}
{{- $prefix = printf "/hooks/%s" (first .) -}}
{{- end -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-serve" $name) -}}
{{- $reads := contains "HARBORMASTER_WEBHOOK_SECRET_FILE" (toJson .spec.template) -}}
{{- $seen := ge (dig "status" "observedGeneration" 0 . | int) (int .metadata.generation) -}}
{{- $all := eq (dig "status" "updatedReplicas" 0 . | int) (dig "status" "replicas" 0 . | int) -}}
{{- if not (and $secrets $reads $seen $all (has (first $secrets) $kept)) -}}
{{- $kind := "ValidatingWebhookConfiguration" -}}
{{- $called := lookup "admissionregistration.k8s.io/v1" $kind "" (include "harbormaster.clusterName" $) -}}
{{- $prefix = "" -}}
{{- with dig "webhooks" list $called -}}
{{- $prefix = dig "clientConfig" "service" "path" "" (first .) | regexFind "^/hooks/[^/]+" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $hooks "secrets" $secrets -}}
{{- $_ := set $hooks "prefix" $prefix -}}
{{- end -}}
{{- end }}

{{- define "harbormaster.givenBundle" -}}
{{- if eq .Values.certs.mode "files" }}{{ .Values.certs.files.caBundle }}{{ end -}}
{{- end }}

{{- define "harbormaster.hookAnnotations" -}}
{{- $annotations := .Values.webhook.annotations -}}
{{- if eq .Values.certs.mode "cert-manager" -}}
{{- $from := printf "%s/%s" .Release.Namespace (include "harbormaster.fullname" .) -}}
{{- $annotations = merge (dict "cert-manager.io/inject-ca-from" $from) $annotations -}}
{{- end -}}
{{- with $annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* The Secret with the certificate in a pod; empty: the server has an authority of its own. */}}
{{- define "harbormaster.tlsSecret" -}}
{{- if eq .Values.certs.mode "cert-manager" }}{{ include "harbormaster.fullname" . }}-tls{{ end -}}
{{- if eq .Values.certs.mode "files" }}{{ .Values.certs.files.secretName }}{{ end -}}
{{- end }}

{{/* The names in the certificate; the first is that by which the server checks itself. */}}
{{- define "harbormaster.dnsNames" -}}
{{- $name := include "harbormaster.fullname" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $own := list (printf "%s.%s.svc" $name $namespace) (printf "%s.%s" $name $namespace) $name (printf "%s.%s.svc.%s" $name $namespace .Values.clusterDomain) -}}
{{- concat $own .Values.certs.extraDNSNames | uniq | toJson -}}
{{- end }}

{{/* Seconds that the server may take to stop: what its drain may take, requests under way, the Lease, and some to spare. */}}
{{- define "harbormaster.servingGracePeriod" -}}
{{- addf .Values.settings.drainLimitSeconds .Values.settings.shutdownSeconds 20 | ceil | int -}}
{{- end }}

{{/* One variable, where its value differs from the default: (list variable value default). */}}
{{- define "harbormaster.setting" -}}
{{- $text := include "harbormaster.text" (index . 1) -}}
{{- if and (ne $text (index . 2)) (not (kindIs "invalid" (index . 1))) }}
- name: {{ index . 0 }}
  value: {{ $text | quote }}
{{- end -}}
{{- end }}

{{/* A value as the environment spells it. */}}
{{- define "harbormaster.text" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else if not (kindIs "slice" .) -}}
{{- toRawJson . -}}
{{- else if not . -}}
{{- else if kindIs "map" (first .) -}}
{{- toRawJson . -}}
{{- else -}}
{{- join "," . -}}
{{- end -}}
{{- end }}

{{/* What placements may select, as words: plural.group. */}}
{{- define "harbormaster.selected" -}}
{{- $selected := default (include "harbormaster.selectable" . | fromJsonArray) .Values.reconcile.select -}}
{{- .Values.reconcile.secrets | ternary (append $selected "secrets") $selected | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* The rules for what placements select. */}}
{{- define "harbormaster.reading" -}}
{{- if .Values.reconcile.selectEverything }}
  # kinds that placements select: every kind, including Secrets
  - apiGroups: ["*"]
    resources: ["*"]
    verbs: ["get", "list", "watch"]
{{- if .Values.reconcile.backReport }}
  # status of placed objects on their member, written back to the hub
  - apiGroups: ["*"]
    resources: ["*/status"]
    verbs: ["update"]
{{- end }}
{{- else }}
{{- $without := include "harbormaster.withoutStatus" . | fromJsonArray }}
{{- $selected := include "harbormaster.selected" . | fromJsonArray }}
{{- range $group, $plurals := include "harbormaster.byGroup" $selected | fromJson }}
  # kinds that placements select
  - apiGroups: [{{ $group | quote }}]
    resources: {{ toJson $plurals }}
    verbs: ["get", "list", "watch"]
{{- end }}
{{- if .Values.reconcile.backReport }}
{{- $reported := list }}
{{- range $selected }}
{{- $reported = has . $without | ternary $reported (append $reported .) }}
{{- end }}
{{- range $group, $plurals := include "harbormaster.byGroup" $reported | fromJson }}
{{- $statuses := list }}
{{- range $plurals }}{{ $statuses = append $statuses (printf "%s/status" .) }}{{ end }}
  # status of placed objects on their member, written back to the hub
  - apiGroups: [{{ $group | quote }}]
    resources: {{ toJson $statuses }}
    verbs: ["update"]
{{- end }}
{{- end }}
{{- end }}
{{- range $group, $plurals := include "harbormaster.byGroup" .Values.settings.analysisKinds | fromJson }}
  # their conditions may approve a stage of a run
  - apiGroups: [{{ $group | quote }}]
    resources: {{ toJson $plurals }}
    verbs: ["get"]
{{- end }}
{{- end }}

{{/* Where the loop finds what query endpoints take. */}}
{{- define "harbormaster.analysisEnv" -}}
{{- if .Values.reconcile.analysis.secret }}
{{- with .Values.reconcile.analysis.authorities }}
- name: HARBORMASTER_ANALYSIS_CA
  value: /analysis/{{ . }}
{{- end }}
{{- with .Values.reconcile.analysis.token }}
- name: HARBORMASTER_ANALYSIS_TOKEN_FILE
  value: /analysis/{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the files are by which an upgrader outside and we know each other. */}}
{{- define "harbormaster.handOffEnv" -}}
{{- if .Values.handOff.secret -}}
- name: HARBORMASTER_HANDOFF_SECRET_FILE
  value: /hand-off/{{ .Values.handOff.key }}
{{- with .Values.handOff.authorities }}
- name: HARBORMASTER_HANDOFF_CA
  value: /hand-off/{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the files are by which the receiver of notifications and we know each other. */}}
{{- define "harbormaster.notificationsEnv" -}}
{{- if .Values.notifications.secret -}}
- name: HARBORMASTER_NOTIFICATIONS_SECRET_FILE
  value: /notifications/{{ .Values.notifications.key }}
{{- with .Values.notifications.authorities }}
- name: HARBORMASTER_NOTIFICATIONS_CA
  value: /notifications/{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the files are by which the provider that people sign in with and we know each other, and what seals sessions. */}}
{{- define "harbormaster.signInEnv" -}}
{{- if .Values.signIn.secret -}}
- name: HARBORMASTER_OIDC_CLIENT_SECRET_FILE
  value: /sign-in/{{ .Values.signIn.clientKey }}
- name: HARBORMASTER_OIDC_SESSION_SECRET_FILE
  value: /sign-in/{{ .Values.signIn.sessionKey }}
{{- with .Values.signIn.authorities }}
- name: HARBORMASTER_OIDC_CA
  value: /sign-in/{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where instance types and prices are. */}}
{{- define "harbormaster.nodePricesEnv" -}}
{{- if .Values.nodeDisruption.pricesConfigMap -}}
- name: HARBORMASTER_NODE_DISRUPTION_PRICES
  value: /node-prices/{{ .Values.nodeDisruption.pricesKey }}
{{- end }}
{{- end }}

{{/* Words plural.group, as plurals by group. */}}
{{- define "harbormaster.byGroup" -}}
{{- $groups := dict -}}
{{- range . -}}
{{- $parts := splitn "." 2 . -}}
{{- $group := default "" $parts._1 -}}
{{- $_ := set $groups $group (append (get $groups $group | default list) $parts._0) -}}
{{- end -}}
{{- toJson $groups -}}
{{- end }}
