// Package sim lets rare hours happen to a simulated tier.
package sim
