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

{{- define "xdsrelay.selector" -}}
app.kubernetes.io/name: {{ include "xdsrelay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "xdsrelay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "xdsrelay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "xdsrelay.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "xdsrelay.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "xdsrelay.image" -}}
{{- with .Values.image -}}
{{- $name := printf "%s/%s" .registry .repository | trimPrefix "/" -}}
{{- if .digest -}}{{ $name }}@{{ .digest }}{{- else -}}{{ $name }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secrets with certificates: those named, or those that cert-manager makes. */}}
{{- define "xdsrelay.tlsSecret" -}}
{{- if .Values.tls.secretName -}}{{ .Values.tls.secretName }}
{{- else if .Values.certManager.enabled -}}{{ include "xdsrelay.fullname" . }}-tls
{{- end -}}
{{- end -}}
{{- define "xdsrelay.peerSecret" -}}
{{- if .Values.tier.peer.tlsSecret -}}{{ .Values.tier.peer.tlsSecret }}
{{- else if and .Values.certManager.enabled .Values.certManager.peerIssuerRef.name -}}{{ include "xdsrelay.fullname" . }}-peer-tls
{{- end -}}
{{- end -}}

{{/* "yes" where the relays are one tier. */}}
{{- define "xdsrelay.tier" -}}
{{- if or .Values.tier.redis.urlSecret.name (dig "tier" "redis" "url" "" .Values.config) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" where a port for clients, "listener" or "rest", has no TLS. */}}
{{- define "xdsrelay.plaintext" -}}
{{- if not (or (include "xdsrelay.tlsSecret" .root) (dig .of "tls" "" .root.Values.config)) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" where relays talk to one another without TLS. */}}
{{- define "xdsrelay.peerPlaintext" -}}
{{- if not (or (include "xdsrelay.peerSecret" .) (dig "tier" "peer" "tls" "" .Values.config)) -}}yes{{- end -}}
{{- end -}}

{{/* How clients are authenticated, by "listener" or "rest". */}}
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

{{/* The ports of config.listeners that can be reached from outside the pod. */}}
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

{{/* What the chart knows of the configuration. */}}
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
  # A control plane that has lost its data must not remove everything from all clients.
  max_percent: 50
{{- if include "xdsrelay.tier" . }}
tier:
  redis:
    # Releases of one name may share a Redis, and are different tiers.
    prefix: {{ .Release.Namespace }}_{{ include "xdsrelay.fullname" . }}
    {{- if .Values.tier.redis.passwordSecret.name }}
    password_file: /etc/xdsrelay/redis/password
    {{- end }}
    {{- if .Values.tier.redis.sentinelPasswordSecret.name }}
    sentinel_password_file: /etc/xdsrelay/sentinel/password
    {{- end }}
    {{- if .Values.tier.redis.tlsSecret }}
    tls:
      ca_file: /etc/xdsrelay/redis-tls/ca.crt
      {{- if .Values.tier.redis.clientAuth }}
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
{{- if .Values.lastGood.keysSecret.name }}
last_known_good:
  encryption_keys_file: /etc/xdsrelay/last-good/keys
{{- end }}
admin:
  address: 127.0.0.1:19000
metrics:
  address: :{{ .Values.ports.metrics }}
drain:
  duration: {{ .Values.drain.seconds }}s
  grace: {{ .Values.drain.graceSeconds }}s
log:
  format: json
{{- end -}}

{{/* All of the configuration. A configuration has either a section listener or a list:
with config.listeners the port of the chart is the first of the list. */}}
{{- define "xdsrelay.config" -}}
{{- $all := mergeOverwrite (fromYaml (include "xdsrelay.known" .)) (deepCopy .Values.config) -}}
{{- with dig "listeners" list .Values.config -}}
{{- $own := merge (dict "name" "default") $all.listener -}}
{{- $_ := set (unset $all "listener") "listeners" (prepend . $own) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* The same without what a relay takes while it runs: all but the rules of aggregation,
which move no client that is there. */}}
{{- define "xdsrelay.fixed" -}}
{{- mergeOverwrite (fromYaml (include "xdsrelay.config" .)) (fromYaml (.Files.Get "files/live.yaml")) | toYaml -}}
{{- end -}}

{{/* What cannot work is said before anything is installed. */}}
{{- define "xdsrelay.check" -}}
{{- if and (not .Values.existingConfigMap) (not (dig "upstreams" list .Values.config)) (not (dig "upstream" "addresses" "" .Values.config)) (not (dig "upstream" "directory" "" .Values.config)) -}}
{{- fail "config.upstream has to name the control plane: --set 'config.upstream.addresses={control-plane.example:18000}'" -}}
{{- end -}}
{{- if hasKey .Values.config "drain" -}}
{{- fail "the pod's time to end is worked out from drain.seconds and drain.graceSeconds: set those instead of config.drain" -}}
{{- end -}}
{{- $root := . -}}
{{- range $of, $port := dict "listener" "xds" "rest" "rest" "metrics" "metrics" -}}
{{- $address := dig $of "address" "" $root.Values.config -}}
{{- if and $address (not (hasSuffix (printf ":%v" (get $root.Values.ports $port)) $address)) -}}
{{- fail (printf "config.%s.address has another port than the pods: set ports.%s instead" $of $port) -}}
{{- end -}}
{{- end -}}
{{- if and (include "xdsrelay.tier" .) (include "xdsrelay.peerPlaintext" .) (not .Values.tier.peer.tokenSecret.name) (not (dig "tier" "peer" "token_file" "" .Values.config)) -}}
{{- fail "relays of a tier have to prove that they are: set tier.peer.tlsSecret, tier.peer.tokenSecret.name or certManager.peerIssuerRef.name" -}}
{{- end -}}
{{- with .Values.certManager -}}
{{- if and .enabled (not .issuerRef.name) -}}{{- fail "certManager.issuerRef.name has to name the issuer" -}}{{- end -}}
{{- if and .enabled .peerIssuerRef.name (eq (toJson .issuerRef) (toJson .peerIssuerRef)) (not $.Values.tier.peer.tokenSecret.name) -}}
{{- fail "whoever has a certificate of certManager.peerIssuerRef counts as a relay: name an issuer for relays alone, or set tier.peer.tokenSecret.name too" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tier.redis.clientAuth (not .Values.tier.redis.tlsSecret) -}}
{{- fail "tier.redis.clientAuth needs a certificate: set tier.redis.tlsSecret" -}}
{{- end -}}
{{- if and .Values.tls.clientAuth (not (include "xdsrelay.tlsSecret" .)) -}}
{{- fail "tls.clientAuth needs certificates: set tls.secretName or certManager.enabled" -}}
{{- end -}}
{{- if and .Values.tls.clientAuth (not .Values.existingConfigMap) (not (dig "authorization" "rules" "" .Values.config)) (not (dig "authorization" "allow_any" "" .Values.config)) -}}
{{- fail "with tls.clientAuth, config.authorization needs rules, or allow_any: true to allow every client with a certificate" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (ne .Values.kind "Deployment") -}}
{{- fail "autoscaling is for kind: Deployment" -}}
{{- end -}}
{{- end -}}

{{/* The Secrets that are mounted, each below /etc/xdsrelay. */}}
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
{{- if .Values.tier.redis.tlsSecret -}}
{{- $all = append $all (dict "volume" "redis-tls" "name" .Values.tier.redis.tlsSecret) -}}
{{- end -}}
{{- end -}}
{{- with .Values.lastGood.keysSecret -}}{{- if .name -}}
{{- $all = append $all (dict "volume" "last-good" "name" .name "key" .key "path" "keys") -}}
{{- end -}}{{- end -}}
{{- toYaml $all -}}
{{- end -}}
