"""Programs around the library: doctor, calibrate, selftest, demo."""
