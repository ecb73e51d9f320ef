"""Relative differences up to which numbers are equal."""

ROUNDING = 1e-9
"""Of numbers that are computed in float64."""

SAME = 1e-6
"""Of numbers that other programs wrote, rounded to some digits or to float32."""

NEAR = 1e-3
"""Of sizes and ratios that programs round by different rules."""
