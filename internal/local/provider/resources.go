package provider

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// mostCPUs and mostMemory are more than any host has; much more would not fit a number.
const (
	mostCPUs   = 1 << 20
	mostMemory = 1 << 60
)

// limitsOf are the limits that a machine is to be made with.
func limitsOf(lm *infrav1.LocalMachine) sandbox.Resources {
	var limits sandbox.Resources
	if cpu := lm.Spec.Resources.CPU; cpu != nil {
		limits.MilliCPU = mostCPUs * 1000
		if cpu.CmpInt64(mostCPUs) < 0 {
			limits.MilliCPU = cpu.MilliValue()
		}
	}
	if memory := lm.Spec.Resources.Memory; memory != nil {
		limits.Memory = mostMemory
		if memory.CmpInt64(mostMemory) < 0 {
			limits.Memory = memory.Value()
		}
	}
	return limits
}

// resourcesOf are the limits of a machine as its object has them.
func resourcesOf(limits sandbox.Resources) infrav1.LocalMachineResources {
	var r infrav1.LocalMachineResources
	if limits.MilliCPU > 0 {
		r.CPU = resource.NewMilliQuantity(limits.MilliCPU, resource.DecimalSI)
	}
	if limits.Memory > 0 {
		r.Memory = resource.NewQuantity(limits.Memory, resource.BinarySI)
	}
	return r
}

// notFree is why a machine is not made on a host that has not got what it asks for.
func notFree(lm *infrav1.LocalMachine, missing *sandbox.NotFreeError) *problem {
	wanted, what, has := lm.Spec.Resources.Memory, memoryText, "available"
	if missing.Resource == "cpu" {
		wanted, what, has = lm.Spec.Resources.CPU, cpuText, "the host's"
	}
	return &problem{infrav1.ResourcesNotFreeReason, fmt.Sprintf("spec.resources.%s is %s, and %s is free on this host: %s is %s, of which "+
		"%s is promised to other machines",
		missing.Resource, wanted, what(missing.Free()), what(missing.Host), has, what(missing.Promised))}
}

func cpuText(milli int64) string {
	return resource.NewMilliQuantity(milli, resource.DecimalSI).String()
}

// memoryStep is the least difference in memory that is told: what is available changes all the time, and each text that differs
// is one more write.
const memoryStep = 64 << 20

func memoryText(bytes int64) string {
	return resource.NewQuantity(bytes/memoryStep*memoryStep, resource.BinarySI).String()
}
