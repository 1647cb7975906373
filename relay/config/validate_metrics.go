package config

func (d *decoder) checkMetrics(cfg *Config) {
	if a := cfg.Metrics.Address; a != "" {
		d.hostPort("metrics.address", a, 0)
	}
}
