"""A stand-in for plotly with the same joints: figures of dictionaries, `io` with its renderers."""
