{{- define "overdue.labels" -}}
app.kubernetes.io/name: overdue
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "overdue.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "overdue.env" -}}
- name: OVERDUE_LISTEN
  value: 0.0.0.0:8000
- name: OVERDUE_BASE_URL
  value: {{ required "set baseUrl to the URL that jobs and browsers use" .Values.baseUrl | quote }}
{{- if .Values.trustedProxies }}
- name: OVERDUE_TRUSTED_PROXY
  value: {{ join "," .Values.trustedProxies | quote }}
{{- end }}
{{- if .Values.cluster.enabled }}
- name: OVERDUE_CLUSTER
  value: etcd://{{ required "set cluster.etcd to the members of etcd" (join "," .Values.cluster.etcd) }}/{{ .Values.cluster.prefix }}
- name: OVERDUE_CLUSTER_NODE
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: OVERDUE_CLUSTER_LISTEN
  value: 0.0.0.0:8001
- name: OVERDUE_CLUSTER_ADDRESS
  value: $(OVERDUE_CLUSTER_NODE).{{ .Release.Name }}-machines:8001
- name: OVERDUE_CLUSTER_SECRET_FILE
  value: /run/secrets/overdue/secret
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "overdue.container" -}}
image: {{ include "overdue.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
env:
  {{- include "overdue.env" . | nindent 2 }}
{{- if .Values.envFromSecret }}
envFrom:
  - secretRef: {name: {{ .Values.envFromSecret }}}
{{- end }}
volumeMounts:
  - {name: data, mountPath: /data}
  {{- if .Values.cluster.enabled }}
  - {name: secret, mountPath: /run/secrets/overdue, readOnly: true}
  {{- end }}
{{- end }}
