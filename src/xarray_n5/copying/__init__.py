"""Copy arrays, groups and containers, between formats as well."""
