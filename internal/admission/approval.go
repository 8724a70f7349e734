package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// The mutating webhooks record the user who approved. The validating webhooks run last, and decide. config/rbac/diagnostics_role.yaml
// grants the manager the right to create SubjectAccessReviews.
//
// +kubebuilder:webhook:verbs=create;update,path=/mutate-approvals,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,versions=v1beta2,name=approvals.kubeadmcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-approvals,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=controlplanes,versions=v1alpha1,name=approvals.controlplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-approvals,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,versions=v1alpha1,name=approvals.etcdcluster.etcdcluster.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-approvals,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=backup.quorate.io,resources=etcdrecoveries,versions=v1alpha1,name=approvals.etcdrecovery.backup.quorate.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-approvals,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,versions=v1beta2,name=rights.kubeadmcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-approvals,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=controlplanes,versions=v1alpha1,name=rights.controlplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-approvals,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,versions=v1alpha1,name=rights.etcdcluster.etcdcluster.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-approvals,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=backup.quorate.io,resources=etcdrecoveries,versions=v1alpha1,name=rights.etcdrecovery.backup.quorate.io,sideEffects=None,admissionReviewVersions=v1

const (
	recordApprovalsPath = "/mutate-approvals"
	checkApprovalsPath  = "/validate-approvals"
)

// maxUserLength bounds how much of a user's name is recorded.
const maxUserLength = 256

// approvalRecorder writes the user and the time beside an approval. It removes the approval of an object that a user without the verb
// approve creates, for example with a move or from a backup.
type approvalRecorder struct {
	client client.Client
	now    func() time.Time
}

// approvalJudge refuses requests of users without the verb approve that set an approval, or turn the policy Required off.
type approvalJudge struct{ client client.Client }

// guarded holds the fields of an object that approvals depend on; all kinds that have approvals have them in the same place.
type guarded struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Approval controlplanev1.ApprovalSpec `json:"approval"`
	} `json:"spec"`
}

func (g *guarded) needed() bool { return g.Spec.Approval.Policy == controlplanev1.ApprovalRequired }

// approvals are the names of the annotations by which somebody approves or decides, sorted.
func (g *guarded) approvals() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name, value := range g.Metadata.Annotations {
			if recordName(name) != "" && value != "" && !yield(name) {
				return
			}
		}
	})
}

// recordName is the name of the annotation that says who gave an approval, or took a decision, and when; empty: an annotation is neither.
func recordName(approval string) string {
	if approval == controlplanev1.ApprovedAnnotation {
		return controlplanev1.ApprovedByAnnotation
	}
	if digest, is := strings.CutPrefix(approval, controlplanev1.DecisionPrefix); is {
		return controlplanev1.DecidedByPrefix + digest
	}
	return ""
}

// isRecord reports whether an annotation says who gave an approval or took a decision.
func isRecord(name string) bool {
	return name == controlplanev1.ApprovedByAnnotation || strings.HasPrefix(name, controlplanev1.DecidedByPrefix) || isRequestRecord(name)
}

// readGuarded reads an object before and after a request; before is empty for one that is created.
func readGuarded(req admission.Request) (before, after guarded, err error) {
	if len(req.OldObject.Raw) > 0 {
		err = json.Unmarshal(req.OldObject.Raw, &before)
	}
	return before, after, errors.Join(err, json.Unmarshal(req.Object.Raw, &after))
}

// Handle puts who approved or decided, and when, beside that. Nothing else writes it: what a request contains there is replaced.
func (r *approvalRecorder) Handle(ctx context.Context, req admission.Request) admission.Response {
	before, after, err := readGuarded(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	wanted := maps.Clone(after.Metadata.Annotations)
	maps.DeleteFunc(wanted, func(name, value string) bool { return isRecord(name) || recordName(name) != "" && value == "" })
	var dropped []string
	if changed := progressChanged(req, before, after); req.Operation == admissionv1.Create && len(changed) > 0 {
		if err := mayReport(ctx, r.client, req, changed); errors.Is(err, errNotManager) {
			dropped = append(dropped, err.Error()+"; it was removed")
			maps.DeleteFunc(wanted, func(name, _ string) bool { return slices.Contains(changed, name) })
		} else if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
	}
	for _, name := range after.approvals() {
		by := recordName(name)
		if after.Metadata.Annotations[name] == before.Metadata.Annotations[name] {
			if was := before.Metadata.Annotations[by]; was != "" {
				wanted[by] = was
			}
			continue
		}
		if req.Operation == admissionv1.Create {
			if err := mayApprove(ctx, r.client, req); errors.Is(err, errMayNot) {
				dropped = append(dropped, err.Error()+"; the approval was removed")
				delete(wanted, name)
				continue
			} else if err != nil {
				return admission.Errored(http.StatusInternalServerError, err)
			}
		}
		wanted[by] = r.approval(req.UserInfo)
	}
	r.recordRequests(before.Metadata.Annotations, wanted, req.UserInfo)
	return annotate(req.Object.Raw, wanted).WithWarnings(dropped...)
}

// approval is the value of the annotation: when, and who.
func (r *approvalRecorder) approval(who authenticationv1.UserInfo) string {
	name := who.Username
	if len(name) > maxUserLength {
		name = name[:maxUserLength]
	}
	return r.now().UTC().Format(time.RFC3339) + " " + name
}

// annotate answers with what makes the annotations as they should be.
func annotate(raw []byte, wanted map[string]string) admission.Response {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if maps.Equal(object.GetAnnotations(), wanted) {
		return admission.Allowed("")
	}
	object.SetAnnotations(wanted)
	changed, err := object.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(raw, changed)
}

// Handle refuses an approval, a decision, and a spec that needs no approval any more, by somebody without the verb approve. It refuses a
// request to replace machines that cannot be read from anybody.
func (j *approvalJudge) Handle(ctx context.Context, req admission.Request) admission.Response {
	before, after, err := readGuarded(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if req.Operation == admissionv1.Create && req.Resource.Resource == "etcdrecoveries" {
		if refused := j.refusesRecovery(ctx, req); refused != nil {
			return *refused
		}
	}
	if changed := progressChanged(req, before, after); len(changed) > 0 {
		if err := mayReport(ctx, j.client, req, changed); errors.Is(err, errNotManager) {
			return admission.Denied(err.Error())
		} else if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
	}
	if err := checkAsked(before.Metadata.Annotations, after.Metadata.Annotations); err != nil {
		return admission.Denied(err.Error())
	}
	approves := func(name string) bool { return after.Metadata.Annotations[name] != before.Metadata.Annotations[name] }
	if frees := before.needed() && !after.needed(); !frees && !slices.ContainsFunc(after.approvals(), approves) {
		return admission.Allowed("")
	}
	if err := checkDecisions(after.Metadata.Annotations); err != nil {
		return admission.Denied(err.Error())
	}
	switch err := mayApprove(ctx, j.client, req); {
	case errors.Is(err, errMayNot):
		return admission.Denied(err.Error())
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.Allowed("")
}

// refusesRecovery is the answer to a recovery that cannot be made; nil: it can.
func (j *approvalJudge) refusesRecovery(ctx context.Context, req admission.Request) *admission.Response {
	why, err := unrecoverable(ctx, j.client, req)
	if err == nil && why == "" {
		return nil
	}
	refused := admission.Denied(why)
	if err != nil {
		refused = admission.Errored(http.StatusInternalServerError, err)
	}
	return &refused
}

// checkAsked refuses requests about machines, or about etcd, that cannot be read, where they are new.
func checkAsked(before, after map[string]string) error {
	if value := after[controlplanev1.ReplaceAnnotation]; value != before[controlplanev1.ReplaceAnnotation] {
		if _, err := machine.ParseAsked(value); err != nil {
			return err
		}
	}
	if value := after[controlplanev1.EtcdRequestsAnnotation]; value != before[controlplanev1.EtcdRequestsAnnotation] {
		if _, err := machine.ParseRequests(value); err != nil {
			return err
		}
	}
	return nil
}

// checkDecisions bounds decisions.
func checkDecisions(annotations map[string]string) error {
	found := 0
	for name, value := range annotations {
		if !strings.HasPrefix(name, controlplanev1.DecisionPrefix) {
			continue
		}
		if found++; found > controlplanev1.MaxDecisions {
			return fmt.Errorf("metadata.annotations has more than %d decisions (%s...): remove those that are not needed",
				controlplanev1.MaxDecisions, controlplanev1.DecisionPrefix)
		}
		if len(value) > controlplanev1.MaxDecisionLength {
			return fmt.Errorf("invalid metadata.annotations[%s]: has %d bytes, must have at most %d",
				name, len(value), controlplanev1.MaxDecisionLength)
		}
	}
	return nil
}

// errMayNot: the user has no right to approve.
var errMayNot = errors.New("needs the right to approve")

// mayApprove asks the API server whether the user of a request has the verb approve on its object.
func mayApprove(ctx context.Context, c client.Client, req admission.Request) error {
	if allowed, err := isAllowed(ctx, c, req, controlplanev1.ApproveVerb, ""); err != nil || allowed {
		return err
	}
	return fmt.Errorf("metadata.annotations[%s], metadata.annotations[%s...] and a change of spec.approval.policy from Required: "+
		"%q %w: the verb %q on %s %q in namespace %q, as the ClusterRole quorate-approver has",
		controlplanev1.ApprovedAnnotation, controlplanev1.DecisionPrefix, req.UserInfo.Username, errMayNot, controlplanev1.ApproveVerb,
		schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}, req.Name, req.Namespace)
}

// isAllowed asks the API server whether the user of a request has a verb on its object, or on a part of it.
func isAllowed(ctx context.Context, c client.Client, req admission.Request, verb, part string) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(req.UserInfo.Extra))
	for key, value := range req.UserInfo.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: req.UserInfo.Username, Groups: req.UserInfo.Groups, UID: req.UserInfo.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: req.Namespace, Name: req.Name, Verb: verb, Subresource: part,
			Group: req.Resource.Group, Version: req.Resource.Version, Resource: req.Resource.Resource,
		},
	}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may %s %s: %w", req.UserInfo.Username, verb, req.Resource.Resource, err)
	}
	return review.Status.Allowed, nil
}
