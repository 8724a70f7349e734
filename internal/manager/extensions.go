package manager

import (
	"context"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/manager/upgrades"
	"github.com/quorate/quorate/internal/upgrade/extension"
)

// ExtensionOptions say where Quorate's Runtime Extension is served.
type ExtensionOptions = extension.Options

// DefaultExtensionSettings are those of an ExtensionConfig by which nothing is updated in place for machines that do not ask for it.
func DefaultExtensionSettings() map[string]string {
	return map[string]string{extension.PolicySetting: string(controlplanev1.InPlaceNever)}
}

// addExtension serves Quorate's Runtime Extension, with the rights of Quorate's own controllers.
func addExtension(_ context.Context, p *parts) error {
	if p.opts.Extension.Port == 0 {
		return nil
	}
	images := upgrades.Images(p.mgr, p.opts.UpgraderImage)
	return (&extension.Extension{Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), Upgraders: &images}).SetupWithManager(p.serving,
		p.opts.Extension)
}
