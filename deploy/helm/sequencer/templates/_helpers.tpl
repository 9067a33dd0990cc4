{{- define "sequencer.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "sequencer.account" -}}
{{- .Values.serviceAccount.name | default (include "sequencer.name" .) -}}
{{- end -}}
{{- define "sequencer.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "sequencer.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: driver
{{- end -}}
{{- define "sequencer.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- define "sequencer.claim" -}}
{{- .Values.storage.existingClaim | default (printf "%s-state" (include "sequencer.name" .)) -}}
{{- end -}}
{{- /* Where a secret's files are. */ -}}
{{- define "sequencer.secret" -}}
/run/secrets/{{ . }}
{{- end -}}
{{- /* [spark] of the file: who executors are, where they find the driver, what they mount. */ -}}
{{- define "sequencer.spark" -}}
[spark]
"spark.driver.memory" = {{ .Values.driver.memory | quote }}
{{- if gt (int .Values.executors.count) 0 }}
"spark.master" = "k8s://https://kubernetes.default.svc"
"spark.kubernetes.namespace" = {{ .Release.Namespace | quote }}
"spark.kubernetes.container.image" = {{ include "sequencer.image" . | quote }}
"spark.kubernetes.container.image.pullPolicy" = {{ .Values.image.pullPolicy | quote }}
{{- if .Values.pullSecrets }}
"spark.kubernetes.container.image.pullSecrets" = {{ join "," .Values.pullSecrets | quote }}
{{- end }}
"spark.kubernetes.driver.pod.name" = "${HOSTNAME}"
"spark.kubernetes.authenticate.executor.serviceAccountName" = {{ include "sequencer.account" . | quote }}
"spark.kubernetes.executor.label.app.kubernetes.io/instance" = {{ .Release.Name | quote }}
"spark.kubernetes.executor.podTemplateFile" = "/etc/sequencer/executor.yaml"
"spark.driver.host" = "{{ include "sequencer.name" . }}-driver.{{ .Release.Namespace }}.svc"
"spark.driver.bindAddress" = "0.0.0.0"
"spark.driver.port" = "7078"
"spark.driver.blockManager.port" = "7079"
"spark.executor.instances" = "{{ .Values.executors.count }}"
"spark.executor.cores" = "{{ .Values.executors.cores }}"
"spark.executor.memory" = {{ .Values.executors.memory | quote }}
"spark.executor.memoryOverhead" = {{ .Values.executors.memoryOverhead | quote }}
{{- if .Values.storage.enabled }}
"spark.kubernetes.executor.volumes.persistentVolumeClaim.state.mount.path" = {{ .Values.storage.mountPath | quote }}
"spark.kubernetes.executor.volumes.persistentVolumeClaim.state.options.claimName" = {{ include "sequencer.claim" . | quote }}
{{- end }}
{{- range .Values.secretFiles }}
"spark.kubernetes.executor.secrets.{{ . }}" = {{ include "sequencer.secret" . | quote }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.executors.spark }}
{{ $name | quote }} = {{ $value | toString | quote }}
{{- end }}
{{- end -}}
