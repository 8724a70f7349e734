{{/* What all names begin with: the release's, and quorate unless that says so. */}}
{{- define "quorate.name" -}}
{{- if contains "quorate" .Release.Name -}}
{{- .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-quorate" (.Release.Name | trunc 22 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* Labels by which the release's pods are found. They must never change. */}}
{{- define "quorate.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
cluster.x-k8s.io/provider: control-plane-quorate
control-plane: quorate-manager
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "quorate.labels" -}}
app.kubernetes.io/name: quorate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
cluster.x-k8s.io/provider: control-plane-quorate
{{- end -}}

{{/* The namespace that the manager works on; empty: all. */}}
{{- define "quorate.namespace" -}}
{{- if .Values.namespaceScoped.enabled -}}{{ .Values.namespaceScoped.namespace | default .Release.Namespace }}{{- end -}}
{{- end -}}

{{/* The secret of the certificate. */}}
{{- define "quorate.secret" -}}
{{- .Values.certificate.secretName | default (printf "%s-webhook-service-cert" (include "quorate.name" .)) -}}
{{- end -}}

{{/* Whether anything is served with the certificate. */}}
{{- define "quorate.serves" -}}
{{- if or .Values.webhooks.enabled .Values.runtimeExtension.enabled -}}yes{{- end -}}
{{- end -}}

{{/* The annotation by which cert-manager puts the authority into what calls the webhooks. */}}
{{- define "quorate.inject" -}}
{{- if .Values.certManager.enabled -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "quorate.name" . }}-serving-cert
{{- end -}}
{{- end -}}
