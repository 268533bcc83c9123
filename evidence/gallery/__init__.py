"""The gallery: results that others published, imported and judged by gradgate's own rules."""
