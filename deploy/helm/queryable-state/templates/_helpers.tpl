{{/* A label has at most 63 characters, and Kubernetes adds -driver and the hash of a revision. */}}
{{- define "qs.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "qs.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "qs.labels" -}}
{{ include "qs.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "qs.driverHost" -}}
{{ include "qs.name" . }}-driver.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "qs.tlsServerName" -}}
{{ .Values.security.tlsServerName | default (include "qs.driverHost" .) }}
{{- end -}}

{{/* Changes with the secret, where Helm can look it up, so that those who read it start again. */}}
{{- define "qs.jobSecretChecksum" -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace .Values.security.jobSecret | default dict -}}
{{- list .Values.security.jobSecret (get $secret "data") | toJson | sha256sum -}}
{{- end -}}

{{/* YAML's whole numbers are floats here, which would be printed as 1e+06. */}}
{{- define "qs.confValue" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* Mount of the claim of stateVolume, the same in driver and executors. */}}
{{- define "qs.stateMount" -}}
{{- if .Values.stateVolume.claimName }}
- name: state
  mountPath: {{ .Values.stateVolume.mountPath | default .Values.checkpointDirectory | quote }}
{{- end }}
{{- end -}}

{{- define "qs.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "qs.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: ["ALL"]
{{- end -}}

{{/* Mounts of TLS and access file, the same in driver, executors and proxies. */}}
{{- define "qs.securityMounts" -}}
{{- with .Values.security.tlsSecret }}
- name: tls
  mountPath: /etc/queryable-state/tls
  readOnly: true
{{- end }}
{{- with .Values.security.accessSecret }}
- name: access
  mountPath: /etc/queryable-state/access
  readOnly: true
{{- end }}
{{- end -}}

{{- define "qs.securityVolumes" -}}
{{- with .Values.security.tlsSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.security.accessSecret }}
- name: access
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* Refuses what would not start, with the value that mends it. */}}
{{- define "qs.check" -}}
{{- if and (not .Values.security.insecure) (or (not .Values.security.tlsSecret) (not .Values.security.accessSecret)) -}}
{{- fail "set security.tlsSecret and security.accessSecret, or, for a try in clear text, security.insecure=true" -}}
{{- end -}}
{{- if not .Values.security.jobSecret -}}
{{- fail "set security.jobSecret to a secret with the key `secret`: kubectl create secret generic NAME --from-literal=secret=$(openssl rand -hex 32)" -}}
{{- end -}}
{{- range $key, $value := .Values.driver.sparkConf -}}
{{- if hasKey (include "qs.ownConf" $ | fromYaml) $key -}}
{{- fail (printf "driver.sparkConf: the chart sets %s itself, from its other values" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the chart sets of Spark's configuration. */}}
{{- define "qs.ownConf" -}}
{{- $ports := .Values.ports -}}
{{- $name := include "qs.name" . -}}
spark.master: k8s://https://kubernetes.default.svc
spark.submit.deployMode: client
spark.app.name: {{ $name }}
spark.kubernetes.namespace: {{ .Release.Namespace }}
spark.kubernetes.driver.pod.name: {{ $name }}-driver-0
spark.kubernetes.authenticate.executor.serviceAccountName: {{ $name }}-executor
spark.kubernetes.executor.container.image: {{ .Values.images.spark.repository }}:{{ .Values.images.spark.tag }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.images.pullPolicy }}
spark.kubernetes.executor.podTemplateFile: /etc/queryable-state/conf/executor.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
spark.driver.host: {{ include "qs.driverHost" . }}
spark.driver.bindAddress: 0.0.0.0
spark.driver.port: {{ $ports.driver | quote }}
spark.driver.blockManager.port: {{ $ports.blockManager | quote }}
spark.blockManager.port: {{ $ports.blockManager | quote }}
spark.executor.instances: {{ .Values.executors.instances | quote }}
spark.executor.cores: {{ .Values.executors.cores | quote }}
spark.executor.memory: {{ .Values.executors.memory }}
spark.executor.memoryOverhead: {{ .Values.executors.memoryOverhead }}
# Spark's own checkpoint is below checkpointDirectory too, and Hadoop has classes for s3a:// only.
spark.hadoop.fs.s3.impl: org.apache.hadoop.fs.s3a.S3AFileSystem
spark.hadoop.fs.AbstractFileSystem.s3.impl: org.apache.hadoop.fs.s3a.S3A
spark.queryable_state.checkpoint_directory: {{ .Values.checkpointDirectory | quote }}
{{- with .Values.driver.savepoint }}
spark.queryable_state.savepoint_path: {{ . | quote }}
{{- end }}
spark.queryable_state.host: 0.0.0.0
spark.queryable_state.coordinator_host: {{ include "qs.driverHost" . }}
spark.queryable_state.coordinator_ports: {{ $ports.coordinator | quote }}
spark.queryable_state.server_ports: {{ $ports.server | quote }}
spark.queryable_state.server_frame_ports: {{ $ports.serverFrames | quote }}
spark.queryable_state.proxy_ports: {{ $ports.proxy | quote }}
spark.queryable_state.proxy_frame_ports: {{ $ports.proxyFrames | quote }}
spark.queryable_state.task_ports: {{ $ports.tasks | quote }}
spark.queryable_state.web: "off"
{{- if .Values.security.tlsSecret }}
spark.queryable_state.tls_certificate: /etc/queryable-state/tls/tls.crt
spark.queryable_state.tls_key: /etc/queryable-state/tls/tls.key
spark.queryable_state.tls_ca: /etc/queryable-state/tls/ca.crt
spark.queryable_state.tls_server_name: {{ include "qs.tlsServerName" . }}
{{- end }}
{{- if .Values.security.accessSecret }}
spark.queryable_state.access_file: /etc/queryable-state/access/access.toml
{{- end }}
{{- if .Values.security.insecure }}
spark.queryable_state.insecure: "true"
{{- end }}
{{- end -}}
