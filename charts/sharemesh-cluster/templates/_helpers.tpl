{{- define "sharemesh-cluster.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 34 | trimSuffix "-" -}}
{{- end -}}

{{- define "sharemesh-cluster.claim" -}}
{{- default (printf "%s-data" (include "sharemesh-cluster.name" .)) .Values.claim.name -}}
{{- end -}}

{{- define "sharemesh-cluster.labels" -}}
app.kubernetes.io/name: sharemesh
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: sharemesh
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sharemesh-cluster.sparkImage" -}}
{{- $image := .Values.spark.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "sharemesh-cluster.testImage" -}}
{{- default (printf "localhost/sharemesh:%s" .Chart.AppVersion) .Values.tests.image -}}
{{- end -}}

{{- define "sharemesh-cluster.bootstrap" -}}
{{- printf "%s-bootstrap.%s.svc:9400" (include "sharemesh-cluster.name" .) .Release.Namespace -}}
{{- end -}}

{{- /* Secret with TLS files, or nothing. */ -}}
{{- define "sharemesh-cluster.tlsSecret" -}}
{{- with .Values.cluster.spec.tls -}}{{- .secretName -}}{{- end -}}
{{- end -}}

{{- /* Audience of the tokens that callers show, or nothing. */ -}}
{{- define "sharemesh-cluster.audience" -}}
{{- with .Values.cluster.spec.tokens -}}{{- default "sharemesh" .audience -}}{{- end -}}
{{- end -}}

{{- /* Volume with a token for the mesh, of the pod's own ServiceAccount. */ -}}
{{- define "sharemesh-cluster.tokenVolume" -}}
- name: mesh-token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, audience: {{ include "sharemesh-cluster.audience" . | quote }}, expirationSeconds: 3600}
{{- end -}}

{{- define "sharemesh-cluster.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "sharemesh-cluster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
