package rollout

import "math"

// Fisher returns the one-sided p value of Fisher's exact test: how probable it is that a or more of
// n clients are affected, and not more than b of m others, if both have the same risk.
func Fisher(a, n, b, m int) float64 {
	if a < 0 || b < 0 || a > n || b > m {
		return 1
	}
	both, sum := a+b, 0.0
	for x := a; x <= min(both, n); x++ {
		if both-x <= m {
			sum += math.Exp(logChoose(n, x) + logChoose(m, both-x) - logChoose(n+m, both))
		}
	}
	return min(1, sum)
}

// logChoose is the logarithm of the number of ways to choose k of n.
func logChoose(n, k int) float64 {
	return logFactorial(n) - logFactorial(k) - logFactorial(n-k)
}

func logFactorial(n int) float64 {
	value, _ := math.Lgamma(float64(n) + 1)
	return value
}

// Wilson returns the score interval of a rate: x of n, at z standard deviations.
func Wilson(x, n uint64, z float64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	size, p := float64(n), float64(x)/float64(n)
	middle, half := p+z*z/(2*size), z*math.Sqrt(p*(1-p)/size+z*z/(4*size*size))
	return max(0, (middle-half)/(1+z*z/size)), min(1, (middle+half)/(1+z*z/size))
}

// Newcombe returns the interval of the difference of two rates, x of n less y of m, at z standard
// deviations: the hybrid score interval, number 10 of Newcombe (1998).
func Newcombe(x, n, y, m uint64, z float64) (low, high float64) {
	if n == 0 || m == 0 {
		return -1, 1
	}
	p, q := float64(x)/float64(n), float64(y)/float64(m)
	l1, u1 := Wilson(x, n, z)
	l2, u2 := Wilson(y, m, z)
	return p - q - math.Hypot(p-l1, u2-q), p - q + math.Hypot(u1-p, q-l2)
}
