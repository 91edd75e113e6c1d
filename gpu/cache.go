package gpu

import (
	"fmt"
	"os"
	"path/filepath"
)

// cachePath is the file in which the measurements named name are kept between processes; "" where none are kept.
func (d *Device) cachePath(name string) string {
	dir := d.opts.CacheDir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(base, "torchlette")
	}
	if dir == "-" {
		return ""
	}
	return filepath.Join(dir, name)
}

// identity names the adapter and its driver: measurements hold for this pair only.
func (d *Device) identity() string {
	a := &d.adapter
	return fmt.Sprintf("%s|%s|%s|%s|%s|%x:%x|%v", d.driver, a.Name, a.Vendor, a.Driver, a.Backend, a.VendorID, a.DeviceID,
		d.opts.Core)
}

// keepFile replaces a file atomically: a reader, or another process that writes it too, sees one whole version.
func keepFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
