{{- define "xdsrelay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "xdsrelay.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "xdsrelay.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "xdsrelay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "xdsrelay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "xdsrelay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of objects that are not pods of the relay, and which its selectors must not match. */}}
{{- define "xdsrelay.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "xdsrelay.labels" -}}
{{ include "xdsrelay.selectorLabels" . }}
{{ include "xdsrelay.chartLabels" . }}
{{- end -}}

{{/* The labels with more labels, which have precedence. */}}
{{- define "xdsrelay.labelsWith" -}}
{{- mergeOverwrite (fromYaml (include "xdsrelay.labels" .root)) (deepCopy .more) | toYaml -}}
{{- end -}}

{{- define "xdsrelay.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "xdsrelay.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "xdsrelay.image" -}}
{{- with .Values.image -}}
{{- $name := printf "%s/%s" (default .registry $.Values.global.imageRegistry) .repository | trimPrefix "/" -}}
{{- if .digest -}}{{ $name }}@{{ .digest }}{{- else -}}{{ $name }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "xdsrelay.imagePullSecrets" -}}
{{- with concat .Values.global.imagePullSecrets .Values.imagePullSecrets | uniq -}}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The Secrets with certificates: those in the values, or those of cert-manager. */}}
{{- define "xdsrelay.tlsSecret" -}}
{{- if .Values.tls.secretName -}}{{ .Values.tls.secretName }}
{{- else if .Values.certManager.enabled -}}{{ include "xdsrelay.fullname" . }}-tls
{{- end -}}
{{- end -}}
{{- define "xdsrelay.peerSecret" -}}
{{- if .Values.tier.peer.tls.secretName -}}{{ .Values.tier.peer.tls.secretName }}
{{- else if and .Values.certManager.enabled .Values.certManager.peerIssuerRef.name -}}{{ include "xdsrelay.fullname" . }}-peer-tls
{{- end -}}
{{- end -}}

{{/* "yes" if the relays are a tier. */}}
{{- define "xdsrelay.tier" -}}
{{- if or .Values.tier.redis.urlSecret.name (dig "tier" "redis" "url" "" .Values.config) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" if a port for clients, "listener" or "rest", has no TLS. The file in
existingConfigMap is unknown here: allowPlaintext describes it. */}}
{{- define "xdsrelay.plaintext" -}}
{{- if or (include "xdsrelay.tlsSecret" .root) (dig .of "tls" "" .root.Values.config) -}}
{{- else if or (not .root.Values.existingConfigMap) .root.Values.allowPlaintext -}}yes
{{- end -}}
{{- end -}}

{{/* "yes" if relays connect to each other without TLS. */}}
{{- define "xdsrelay.peerPlaintext" -}}
{{- if or (include "xdsrelay.peerSecret" .) (dig "tier" "peer" "tls" "" .Values.config) -}}
{{- else if or (not .Values.existingConfigMap) .Values.tier.peer.allowPlaintext -}}yes
{{- end -}}
{{- end -}}

{{/* TLS of a port for clients, "listener" or "rest". */}}
{{- define "xdsrelay.serverTLS" -}}
{{- if include "xdsrelay.tlsSecret" .root -}}
tls:
  cert_file: /etc/xdsrelay/tls/tls.crt
  key_file: /etc/xdsrelay/tls/tls.key
  {{- if .root.Values.tls.clientAuth }}
  ca_file: /etc/xdsrelay/tls/ca.crt
  {{- end }}
{{- else if include "xdsrelay.plaintext" . -}}
allow_plaintext: true
{{- end -}}
{{- end -}}

{{/* The ports of config.listeners that are reachable from outside the pod. */}}
{{- define "xdsrelay.listeners" -}}
{{- $all := list -}}
{{- range dig "listeners" list .Values.config -}}
{{- if regexMatch "^(0\\.0\\.0\\.0|\\[::\\])?:[1-9][0-9]*$" .address -}}
{{- $port := regexFind "[0-9]+$" .address -}}
{{- $all = append $all (dict "name" (printf "xds-%s" $port) "port" (int $port) "protocol" (ternary "tls" "grpc" (hasKey . "tls"))) -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* The part of the configuration that follows from other values. */}}
{{- define "xdsrelay.known" -}}
listener:
  address: :{{ .Values.ports.xds }}
  {{- include "xdsrelay.serverTLS" (dict "root" . "of" "listener") | nindent 2 }}
{{- if .Values.ports.rest }}
rest:
  address: :{{ .Values.ports.rest }}
  {{- include "xdsrelay.serverTLS" (dict "root" . "of" "rest") | nindent 2 }}
{{- end }}
removal_guard:
  # A control plane that loses its data must not remove everything from all clients.
  max_percent: 50
{{- if include "xdsrelay.tier" . }}
tier:
  redis:
    # Several releases may share a Redis.
    prefix: {{ .Release.Namespace }}_{{ include "xdsrelay.fullname" . }}
    {{- if .Values.tier.redis.passwordSecret.name }}
    password_file: /etc/xdsrelay/redis/password
    {{- end }}
    {{- if .Values.tier.redis.sentinelPasswordSecret.name }}
    sentinel_password_file: /etc/xdsrelay/sentinel/password
    {{- end }}
    {{- if .Values.tier.redis.tls.secretName }}
    tls:
      ca_file: /etc/xdsrelay/redis-tls/ca.crt
      {{- if .Values.tier.redis.tls.clientAuth }}
      cert_file: /etc/xdsrelay/redis-tls/tls.crt
      key_file: /etc/xdsrelay/redis-tls/tls.key
      {{- end }}
    {{- end }}
  peer:
    address: :{{ .Values.ports.peer }}
    {{- if include "xdsrelay.peerSecret" . }}
    tls:
      cert_file: /etc/xdsrelay/peer-tls/tls.crt
      key_file: /etc/xdsrelay/peer-tls/tls.key
      ca_file: /etc/xdsrelay/peer-tls/ca.crt
      server_name: {{ include "xdsrelay.fullname" . }}-peers.{{ .Release.Namespace }}.svc
    {{- else if include "xdsrelay.peerPlaintext" . }}
    allow_plaintext: true
    {{- end }}
    {{- if .Values.tier.peer.tokenSecret.name }}
    token_file: /etc/xdsrelay/peer-token/token
    {{- end }}
{{- end }}
{{- if .Values.lastKnownGood.encryptionKeysSecret.name }}
last_known_good:
  encryption_keys_file: /etc/xdsrelay/last-known-good/keys
{{- end }}
admin:
  address: 127.0.0.1:19000
metrics:
  address: :{{ .Values.ports.metrics }}
drain:
  duration: {{ .Values.drain.durationSeconds }}s
  grace: {{ .Values.drain.graceSeconds }}s
log:
  format: json
{{- end -}}

{{/* The configuration. It has either a section listener or a list: with config.listeners,
the port of the chart is the first of the list. */}}
{{- define "xdsrelay.config" -}}
{{- $all := mergeOverwrite (fromYaml (include "xdsrelay.known" .)) (deepCopy .Values.config) -}}
{{- with dig "listeners" list .Values.config -}}
{{- $own := merge (dict "name" "default") $all.listener -}}
{{- $_ := set (unset $all "listener") "listeners" (prepend . $own) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* The configuration without the keys that a relay applies without a restart. It keeps
aggregation.rules, which apply to new clients only. */}}
{{- define "xdsrelay.fixed" -}}
{{- mergeOverwrite (fromYaml (include "xdsrelay.config" .)) (fromYaml (.Files.Get "files/live.yaml")) | toYaml -}}
{{- end -}}

{{/* Fails if the values contradict each other or are incomplete. */}}
{{- define "xdsrelay.check" -}}
{{- if and (not .Values.existingConfigMap) (not (dig "upstreams" list .Values.config)) (not (dig "upstream" "addresses" "" .Values.config)) (not (dig "upstream" "directory" "" .Values.config)) -}}
{{- fail "config.upstream must have the addresses of the control plane: --set 'config.upstream.addresses={control-plane.example:18000}'" -}}
{{- end -}}
{{- if hasKey .Values.config "drain" -}}
{{- fail "the chart computes the termination grace period from drain.durationSeconds and drain.graceSeconds: set these instead of config.drain" -}}
{{- end -}}
{{- $root := . -}}
{{- range $of, $port := dict "listener" "xds" "rest" "rest" "metrics" "metrics" -}}
{{- $address := dig $of "address" "" $root.Values.config -}}
{{- if and $address (not (hasSuffix (printf ":%v" (get $root.Values.ports $port)) $address)) -}}
{{- fail (printf "the port in config.%s.address differs from the port of the pods: set ports.%s instead" $of $port) -}}
{{- end -}}
{{- end -}}
{{- if not (or .Values.existingConfigMap .Values.allowPlaintext) -}}
{{- range $of, $port := dict "listener" .Values.ports.xds "rest" .Values.ports.rest -}}
{{- if and $port (include "xdsrelay.plaintext" (dict "root" $root "of" $of)) (not (dig $of "allow_plaintext" false $root.Values.config)) -}}
{{- fail (printf "port %v for clients has no TLS, so every process that reaches it could read the configuration of any client: set tls.secretName or certManager.enabled, or allow it with --set allowPlaintext=true" $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "xdsrelay.tier" .) (not (include "xdsrelay.peerSecret" .)) (not (dig "tier" "peer" "tls" "" .Values.config)) (not .Values.tier.peer.tokenSecret.name) (not (dig "tier" "peer" "token_file" "" .Values.config)) (not .Values.existingConfigMap) -}}
{{- fail "relays of a tier must authenticate each other: set tier.peer.tls.secretName, certManager.peerIssuerRef.name or tier.peer.tokenSecret.name" -}}
{{- end -}}
{{- if and (include "xdsrelay.tier" .) (include "xdsrelay.peerPlaintext" .) (not .Values.tier.peer.allowPlaintext) (not (dig "tier" "peer" "allow_plaintext" false .Values.config)) -}}
{{- fail "connections between relays have no TLS, and they carry all configuration and the token: set tier.peer.tls.secretName or certManager.peerIssuerRef.name, or allow it with --set tier.peer.allowPlaintext=true" -}}
{{- end -}}
{{- with .Values.certManager -}}
{{- if and .enabled (not .issuerRef.name) -}}{{- fail "certManager.issuerRef.name must be the name of the issuer" -}}{{- end -}}
{{- if and .enabled .peerIssuerRef.name (eq (toJson .issuerRef) (toJson .peerIssuerRef)) (not $.Values.tier.peer.tokenSecret.name) -}}
{{- fail "each certificate of certManager.peerIssuerRef identifies a relay: set an issuer for relays only, or also set tier.peer.tokenSecret.name" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tier.redis.tls.clientAuth (not .Values.tier.redis.tls.secretName) -}}
{{- fail "tier.redis.tls.clientAuth requires a certificate: set tier.redis.tls.secretName" -}}
{{- end -}}
{{- if and .Values.tls.clientAuth (not (include "xdsrelay.tlsSecret" .)) -}}
{{- fail "tls.clientAuth requires certificates: set tls.secretName or certManager.enabled" -}}
{{- end -}}
{{- if and .Values.tls.clientAuth (not .Values.existingConfigMap) (not (dig "authorization" "rules" "" .Values.config)) (not (dig "authorization" "allow_any" "" .Values.config)) -}}
{{- fail "tls.clientAuth requires config.authorization: set rules, or allow_any: true to accept every client with a valid certificate" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (ne .Values.kind "Deployment") -}}
{{- fail "autoscaling requires kind: Deployment" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "serviceMonitor and podMonitor would scrape each relay twice: enable only one of them" -}}
{{- end -}}
{{- end -}}

{{/* The mounted Secrets, each below /etc/xdsrelay. */}}
{{- define "xdsrelay.secrets" -}}
{{- $all := list -}}
{{- if include "xdsrelay.tlsSecret" . -}}
{{- $all = append $all (dict "volume" "tls" "name" (include "xdsrelay.tlsSecret" .)) -}}
{{- end -}}
{{- if include "xdsrelay.tier" . -}}
{{- if include "xdsrelay.peerSecret" . -}}
{{- $all = append $all (dict "volume" "peer-tls" "name" (include "xdsrelay.peerSecret" .)) -}}
{{- end -}}
{{- with .Values.tier.peer.tokenSecret -}}{{- if .name -}}
{{- $all = append $all (dict "volume" "peer-token" "name" .name "key" .key "path" "token") -}}
{{- end -}}{{- end -}}
{{- with .Values.tier.redis.passwordSecret -}}{{- if .name -}}
{{- $all = append $all (dict "volume" "redis" "name" .name "key" .key "path" "password") -}}
{{- end -}}{{- end -}}
{{- with .Values.tier.redis.sentinelPasswordSecret -}}{{- if .name -}}
{{- $all = append $all (dict "volume" "sentinel" "name" .name "key" .key "path" "password") -}}
{{- end -}}{{- end -}}
{{- if .Values.tier.redis.tls.secretName -}}
{{- $all = append $all (dict "volume" "redis-tls" "name" .Values.tier.redis.tls.secretName) -}}
{{- end -}}
{{- end -}}
{{- with .Values.lastKnownGood.encryptionKeysSecret -}}{{- if .name -}}
{{- $all = append $all (dict "volume" "last-known-good" "name" .name "key" .key "path" "keys") -}}
{{- end -}}{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* Environment, volume mounts and volumes of a relay, and of the pod of helm test. */}}
{{- define "xdsrelay.env" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: XDSRELAY_NODE_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- if include "xdsrelay.tier" . }}
# IPv6 addresses require the brackets.
- name: XDSRELAY_TIER_PEER_ADVERTISE_ADDRESS
  value: "[$(POD_IP)]:{{ .Values.ports.peer }}"
{{- with .Values.tier.redis.urlSecret }}
{{- if .name }}
- name: XDSRELAY_TIER_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "xdsrelay.volumeMounts" -}}
- {name: config, mountPath: /etc/xdsrelay/config, readOnly: true}
{{- range include "xdsrelay.secrets" . | fromYamlArray }}
- {name: {{ .volume }}, mountPath: /etc/xdsrelay/{{ .volume }}, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "xdsrelay.volumes" -}}
- name: config
  configMap: {name: {{ default (include "xdsrelay.fullname" .) .Values.existingConfigMap }}}
{{- range include "xdsrelay.secrets" . | fromYamlArray }}
- name: {{ .volume }}
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    {{- if hasKey . "key" }}
    items: [{key: {{ .key }}, path: {{ .path }}}]
    {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An endpoint of a ServiceMonitor or a PodMonitor. */}}
{{- define "xdsrelay.metricsEndpoint" -}}
- port: metrics
  path: /metrics
  interval: {{ .interval }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  relabelings:
    # The alerts and dashboards expect this job.
    - {targetLabel: job, replacement: xdsrelay}
    {{- with .relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
