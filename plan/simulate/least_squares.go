package simulate

import "math"

func sumSquares(v []float64) (s float64) {
	for _, x := range v {
		s += x * x
	}
	return s
}

// correct changes a Jacobian, by column, as little as lets it say what a step from residuals before to after showed.
func correct(jac [][]float64, step, before, after []float64) {
	length := sumSquares(step)
	if length == 0 {
		return
	}
	for k := range before {
		missed := after[k] - before[k]
		for j := range step {
			missed -= jac[j][k] * step[j]
		}
		for j := range step {
			jac[j][k] += missed * step[j] / length
		}
	}
}

// solveNormal solves (JᵀJ + damp·diag) step = -Jᵀr by elimination with pivoting; jac is by column.
func solveNormal(jac [][]float64, r []float64, damp float64) []float64 {
	n := len(jac)
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n+1)
		for j := range n {
			for k := range r {
				a[i][j] += jac[i][k] * jac[j][k]
			}
		}
		for k := range r {
			a[i][n] -= jac[i][k] * r[k]
		}
	}
	for i := range a {
		a[i][i] += damp*a[i][i] + 1e-9
	}
	for c := range n {
		p := c
		for i := c + 1; i < n; i++ {
			if math.Abs(a[i][c]) > math.Abs(a[p][c]) {
				p = i
			}
		}
		a[c], a[p] = a[p], a[c]
		for i := c + 1; i < n; i++ {
			f := a[i][c] / a[c][c]
			for j := c; j <= n; j++ {
				a[i][j] -= f * a[c][j]
			}
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = a[i][n]
		for j := i + 1; j < n; j++ {
			x[i] -= a[i][j] * x[j]
		}
		x[i] /= a[i][i]
	}
	return x
}
